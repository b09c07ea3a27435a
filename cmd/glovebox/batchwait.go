package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// lookEvery is how often a batch is asked how far it is.
const lookEvery = time.Second

// awaitBatch waits for the end of a batch, prints how it went, collects what it made, and
// answers with the exit code.
func (a *app) awaitBatch(ctx context.Context, jobs *producer.Client, b job.Batch, o batchOptions) error {
	b, err := a.watchBatch(ctx, jobs, b)
	if ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "\nThe batch goes on. \"glovebox batch wait %s\" waits for it, \"glovebox batch cancel %s\" ends it.\n", b.ID, b.ID)
		return silent(exitInterrupted)
	}
	if err != nil {
		return err
	}
	var summary summary
	if o.out != "" {
		err = a.collectResults(ctx, jobs, b.ID, 0, o.out, summary.add)
	} else {
		err = eachResult(ctx, jobs, b.ID, 0, func(r job.BatchResult) error { summary.add(r); return nil })
	}
	if err != nil {
		return err
	}
	if o.json {
		err = a.printJSON(b)
	} else {
		err = a.printSummary(b, summary)
	}
	if err != nil {
		return err
	}
	switch {
	case b.Counts[job.InternalError] > 0:
		return silent(exitGlovebox)
	case b.Counts[job.Succeeded] < b.Total:
		return silent(exitFailed)
	}
	return nil
}

// watchBatch shows the progress of a batch until its end.
func (a *app) watchBatch(ctx context.Context, jobs producer.Batches, b job.Batch) (job.Batch, error) {
	bar := a.progress("running", b.Jobs)
	defer bar.end()
	patience := newPatience()
	for {
		bar.set(b.Ended)
		bar.note(counts(b))
		if b.Status.Final() {
			return b, nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return b, ctx.Err()
		}
		now, err := jobs.GetBatch(ctx, b.ID)
		if err == nil {
			b, patience = now, newPatience()
		} else if err := patience.wait(ctx, err); err != nil {
			return b, err
		}
	}
}

// collectResults writes results.jsonl and artifacts/<index>/<name> below dir. The names
// come from jobs, which may be hostile: a Root leads nowhere else, whatever they say and
// whatever links lie in dir.
func (a *app) collectResults(ctx context.Context, jobs *producer.Client, id string, from int, dir string, also func(job.BatchResult)) (err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	const name, part = "results.jsonl", ".results.jsonl.part"
	if err := root.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) { // also a link
		return err
	}
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	lines := json.NewEncoder(file)
	lines.SetEscapeHTML(false)
	n := 0
	err = eachResult(ctx, jobs, id, from, func(r job.BatchResult) error {
		if also != nil {
			also(r)
		}
		n++
		if err := fetchArtifacts(ctx, jobs, r, root); err != nil {
			return err
		}
		return lines.Encode(r)
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := root.Rename(part, name); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%d results are in %s\n", n, path.Join(dir, name))
	return nil
}

func fetchArtifacts(ctx context.Context, files producer.Files, r job.BatchResult, root *os.Root) error {
	if r.Result == nil || len(r.Result.Artifacts) == 0 {
		return nil
	}
	dir := path.Join("artifacts", strconv.Itoa(r.Index))
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer sub.Close()
	for _, f := range r.Result.Artifacts {
		if err := fetch(ctx, files, r.ID, f, sub, func(body io.Reader) io.Reader { return body }); err != nil {
			return fmt.Errorf("download %q of jobs[%d]: %w", f.Name, r.Index, err)
		}
	}
	return nil
}

// summary is what the table has beside the counts.
type summary struct {
	slowest  []job.BatchResult // the slowest first
	failures []job.BatchResult // by index
	failed   int               // all of them
}

const (
	maxSlowest  = 5
	maxFailures = 20
)

func (s *summary) add(r job.BatchResult) {
	if r.Result != nil { // what it printed is not kept
		kept := *r.Result
		kept.Stdout, kept.Stderr = "", ""
		r.Result = &kept
	}
	if r.Result == nil || r.Result.Status != job.Succeeded {
		if s.failed++; len(s.failures) < maxFailures {
			s.failures = append(s.failures, r)
		}
	}
	if r.Result == nil || r.Result.Usage.WallMS == 0 {
		return
	}
	s.slowest = append(s.slowest, r)
	slices.SortStableFunc(s.slowest, func(x, y job.BatchResult) int { return cmp.Compare(y.Result.Usage.WallMS, x.Result.Usage.WallMS) })
	s.slowest = s.slowest[:min(len(s.slowest), maxSlowest)]
}

func (a *app) printSummary(b job.Batch, s summary) error {
	w := a.table()
	fmt.Fprintln(w, "STATUS\tJOBS")
	for _, status := range job.Statuses() {
		if n := b.Counts[status]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\n", status, n)
		}
	}
	if b.Rejected > 0 {
		fmt.Fprintf(w, "rejected\t%d\n", b.Rejected)
	}
	fmt.Fprintf(w, "in all\t%d\n", b.Total)
	if len(s.slowest) > 0 {
		fmt.Fprintln(w, "\nSLOWEST\tTOOK\tJOB")
		for _, r := range s.slowest {
			fmt.Fprintf(w, "jobs[%d]\t%s\t%s\n", r.Index, milliseconds(r.Result.Usage.WallMS), plain(r.ID))
		}
	}
	if len(s.failures) > 0 {
		fmt.Fprintln(w, "\nFAILED\tWHY\tJOB")
		for _, r := range s.failures {
			fmt.Fprintf(w, "jobs[%d]\t%s\t%s\n", r.Index, reason(r), plain(r.ID))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more := s.failed - len(s.failures); more > 0 {
		fmt.Fprintf(a.stdout, "and %d more\n", more)
	}
	return nil
}

// reason is why a job did not succeed, on one line.
func reason(r job.BatchResult) string {
	const most = 100
	var text string
	switch {
	case r.Result == nil && r.Error == nil:
		text = "the API says neither what it came to nor why it was rejected"
	case r.Result == nil && r.ID != "":
		text = r.Error.Message
	case r.Result == nil:
		text = "rejected: " + r.Error.Message
	case r.Result.Error != nil:
		text = headline(*r.Result) + ": " + r.Result.Error.Message
	default:
		text = headline(*r.Result)
	}
	text = plain(text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
