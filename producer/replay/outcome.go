package replay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// outcome is what is compared of an execution. What it printed can be long: its digest is enough.
type outcome struct {
	status, exitCode, state string
	stdout, stderr          string
	artifacts               map[string]string // name → SHA-256
	results, exception      string            // digests
}

func outcomeOf(ctx context.Context, files producer.Files, r job.Result) (*outcome, error) {
	o := &outcome{status: fmt.Sprint(r.Status, " ", r.Signal, " ", r.Limit), artifacts: map[string]string{}}
	if r.ExitCode != nil {
		o.exitCode = fmt.Sprint(*r.ExitCode)
	}
	if r.Session != nil {
		o.state = r.Session.State
	}
	for _, s := range []struct {
		to *string
		of any
	}{{&o.results, []any{r.Results, r.ResultsLeftOut}}, {&o.exception, r.Exception}} {
		b, err := job.Marshal(s.of)
		if err != nil {
			return nil, fmt.Errorf("encode results of execution %s: %w", r.ID, err)
		}
		*s.to = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	for _, a := range r.Artifacts {
		o.artifacts[a.Name] = a.SHA256
	}
	for _, s := range []struct {
		to        *string
		text, url string
		path      string
		wasCut    bool
	}{{&o.stdout, r.Stdout, r.StdoutURL, producer.Stdout, r.StdoutTruncated}, {&o.stderr, r.Stderr, r.StderrURL, producer.Stderr, r.StderrTruncated}} {
		sum := sha256.New()
		if s.url == "" {
			_, _ = io.Copy(sum, strings.NewReader(s.text)) // no hash fails
		} else if err := copyFile(ctx, files, r.ID, s.path, sum); err != nil {
			return nil, err
		}
		*s.to = fmt.Sprintf("%x %t", sum.Sum(nil), s.wasCut)
	}
	return o, nil
}

func copyFile(ctx context.Context, files producer.Files, id, path string, to io.Writer) error {
	d, err := files.Open(ctx, id, path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer d.Close()
	if _, err := io.Copy(to, d); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// differs names what is not the same in both.
func (o outcome) differs(is outcome) (parts []string) {
	for _, p := range []struct {
		name string
		same bool
	}{
		{"status", o.status == is.status},
		{"exit_code", o.exitCode == is.exitCode},
		{"stdout", o.stdout == is.stdout},
		{"stderr", o.stderr == is.stderr},
		{"results", o.results == is.results},
		{"exception", o.exception == is.exception},
		{"artifacts", maps.Equal(o.artifacts, is.artifacts)},
		{"state", o.state == is.state},
	} {
		if !p.same {
			parts = append(parts, p.name)
		}
	}
	return parts
}
