package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// batchTest is an API with a worker behind it that runs nothing, but ends every job.
type batchTest struct {
	*producertest.Env
	t   *testing.T
	url string
	dir string
}

func newBatchTest(t *testing.T) *batchTest {
	t.Helper()
	b := &batchTest{Env: producertest.New(t, ""), t: t, dir: t.TempDir()}
	b.Runtimes(t)
	a, err := api.New(api.Config{Client: b.Client, Links: b.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// work ends jobs until the test does: one whose source is "fail" fails, and each leaves a file.
func (b *batchTest) work() {
	b.endJobs(func(j record.Record) {
		b.End(b.t, j, map[string]string{"out/n.txt": j.Spec.Source}, func(r *job.Result) {
			r.Stdout, r.Usage.WallMS = j.Spec.Source, 7
			if j.Spec.Source == "fail" {
				three := 3
				r.Status, r.ExitCode = job.Failed, &three
			}
		})
	})
}

// endJobs starts jobs until the test ends, as a worker would, and has each ended.
func (b *batchTest) endJobs(end func(record.Record)) {
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			page, err := b.Client.List(ctx, producer.ListOptions{Status: []job.Status{job.Queued}, Limit: producer.MaxPage})
			if err != nil && ctx.Err() == nil {
				b.t.Errorf("list: %v", err)
				return
			}
			for _, queued := range page.Jobs {
				j, err := b.Worker.Start(ctx, queued.ID, 1, "worker-1")
				if errors.Is(err, job.ErrEnded) || ctx.Err() != nil {
					continue
				}
				if err != nil {
					b.t.Errorf("start: %v", err)
					return
				}
				end(j)
			}
		}
	}()
}

// glovebox runs a command as a user would.
func (b *batchTest) glovebox(stdin string, args ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	var out, errs gbtest.Buffer
	code = b.app(stdin, &out, &errs).run(b.t.Context(), args)
	return out.String(), errs.String(), code
}

func (b *batchTest) app(stdin string, stdout, stderr io.Writer) *app {
	return &app{stdin: strings.NewReader(stdin), stdout: stdout, stderr: stderr, getenv: func(name string) string {
		return map[string]string{"GLOVEBOX_URL": b.url, "GLOVEBOX_TOKEN": "token", "GLOVEBOX_DATA": filepath.Join(b.dir, "none"), "HOME": b.dir}[name]
	}}
}

// file writes one.
func (b *batchTest) file(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func TestBatchSubmit(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.work()
	n := 230
	if testing.Short() {
		n = 60
	}
	var lines, list []string
	for i := range n {
		source := fmt.Sprint(i)
		if i == 5 || i == 50 {
			source = "fail"
		}
		line := fmt.Sprintf(`{"runtime":"python","source":%q}`, source)
		if i == 9 {
			line = `{"runtime":"cobol","source":"1"}`
		}
		lines, list = append(lines, line), append(list, line)
	}
	jsonl := b.file("jobs.jsonl", `{"batch":{"metadata":{"course":"cs1"}}}`+"\n"+strings.Join(lines, "\n"))
	object := b.file("jobs.json", `{"metadata":{"course":"cs1"},"jobs":[`+strings.Join(list, ",\n")+`]}`)
	for _, path := range []string{jsonl, object} {
		out := filepath.Join(t.TempDir(), "results")
		stdout, stderr, code := b.glovebox("", "batch", "submit", path, "--out", out)
		if code != exitFailed {
			t.Errorf("%s: got exit code %d, want %d; it said:\n%s", path, code, exitFailed, stderr)
		}
		for _, want := range []string{fmt.Sprintf(`succeeded +%d`, n-3), `failed +2`, `rejected +1`, fmt.Sprintf(`in all +%d`, n), `jobs\[5\] +failed \(exit code 3\)`, `jobs\[9\] +rejected: runtime`, `SLOWEST`} {
			if !regexp.MustCompile(want).MatchString(stdout) {
				t.Errorf("%s: got\n%s, want %s in it", path, stdout, want)
			}
		}
		b.checkResults(out, n)
	}
}

func (b *batchTest) checkResults(dir string, n int) {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	index := 0
	for line := range bytes.Lines(content) {
		var r job.BatchResult
		if err := json.Unmarshal(line, &r); err != nil || r.Index != index {
			b.t.Fatalf("line %d: got %s, %v", index, line, err)
		}
		index++
		if r.Result == nil {
			continue
		}
		made, err := os.ReadFile(filepath.Join(dir, "artifacts", fmt.Sprint(r.Index), "out", "n.txt"))
		if err != nil || string(made) != r.Result.Stdout || r.Result.Stdout != fmt.Sprint(r.Index) && r.Result.Stdout != "fail" {
			b.t.Errorf("artifact of jobs[%d]: got %q, %v, want %q", r.Index, made, err, r.Result.Stdout)
		}
	}
	if index != n {
		b.t.Errorf("got %d results, want %d", index, n)
	}
}

func TestBatchCommands(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	const two = `{"runtime":"python","source":"1"}` + "\n" + `{"runtime":"python","source":"2"}` + "\n"
	stdout, stderr, code := b.glovebox(two, "batch", "submit", "-", "--no-wait", "--key", "k", "--metadata", "a=b")
	id := strings.TrimSpace(stdout)
	if _, ok := job.TenantOfBatch(id); !ok || code != exitOK {
		t.Fatalf("submit: got %q, exit code %d; it said:\n%s", stdout, code, stderr)
	}
	if again, _, _ := b.glovebox(two, "batch", "submit", "-", "--no-wait", "--key", "k", "--metadata", "a=b"); again != stdout {
		t.Errorf("submit again with the key: got %s, want %s", again, stdout)
	}
	if _, stderr, code := b.glovebox(two[:30], "batch", "submit", "-", "--no-wait"); code != exitUsage || !strings.Contains(stderr, "jobs[0]") {
		t.Errorf("cut off: got exit code %d:\n%s", code, stderr)
	}
	if out, _, code := b.glovebox("", "batch", "get", id); code != exitOK || !strings.Contains(out, "2 to go") || !strings.Contains(out, "a = b") {
		t.Errorf("get: got exit code %d:\n%s", code, out)
	}
	b.End(t, b.Start(t, job.ItemID(id, 1)), nil, nil)
	if out, _, code := b.glovebox("", "batch", "results", id); code != exitOK || !strings.HasPrefix(out, `{"index":1,"id":"`+job.ItemID(id, 1)) || strings.Count(out, "\n") != 1 {
		t.Errorf("results: got exit code %d:\n%s", code, out)
	}
	if out, _, code := b.glovebox("", "batch", "cancel", id); code != exitOK || !strings.Contains(out, "canceled") {
		t.Errorf("cancel: got exit code %d:\n%s", code, out)
	}
	if out, _, code := b.glovebox("", "batch", "wait", id, "--json"); code != exitFailed || !strings.Contains(out, `"status": "canceled"`) {
		t.Errorf("wait: got exit code %d:\n%s", code, out)
	}
	if out, _, code := b.glovebox("", "batch", "list"); code != exitOK || !strings.Contains(out, id) {
		t.Errorf("list: got exit code %d:\n%s", code, out)
	}
	if _, stderr, code := b.glovebox("", "batch", "get", job.NewBatchID("default")); code != exitFailed || stderr == "" {
		t.Errorf("get none: got exit code %d:\n%s", code, stderr)
	}
}

// A file is checked before anything of it is sent.
func TestBatchFile(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	fine := `{"runtime":"python","source":"1"}` + "\n"
	for name, c := range map[string]struct{ file, content, want string }{
		"broken":           {"a.jsonl", fine + "{", "jobs[1] (line 2)"},
		"unknown field":    {"b.jsonl", fine + fine + `{"sorce":"1"}`, `jobs[2] (line 3): sorce: is not a known field`},
		"mistyped":         {"c.jsonl", `{"source":1}`, "jobs[0] (line 1): source: is not a string"},
		"half a character": {"h.jsonl", `{"source":"\udc80"}`, "jobs[0] (line 1): source: has an escape that is half a character"},
		"not UTF-8":        {"u.jsonl", "{\"source\":\"caf\xe9\"}", "jobs[0] (line 1): the job: is not UTF-8"},
		"no tests":         {"t.jsonl", fine + `{"source":"1","tests":[]}`, "jobs[1] (line 2): tests: is empty"},
		"empty":            {"d.jsonl", "\n", "has 0 jobs"},
		"too many":         {"e.jsonl", strings.Repeat(fine, job.MaxBatch+1), "1 to 10000"},
		"no object":        {"f.json", fine, "has no jobs"},
		"options":          {"g.json", `{"meta":{},"jobs":[` + fine + `]}`, `meta: is not a known field`},
	} {
		_, stderr, code := b.glovebox("", "batch", "submit", b.file(c.file, c.content))
		if code != exitUsage || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, c.file) {
			t.Errorf("%s: got exit code %d, want 2 and %q:\n%s", name, code, c.want, stderr)
		}
	}
	if _, stderr, code := b.glovebox("", "batch", "submit", filepath.Join(b.dir, "none.jsonl")); code != exitUsage {
		t.Errorf("no file: got exit code %d:\n%s", code, stderr)
	}
	if page, err := b.Client.ListBatches(t.Context(), producer.BatchListOptions{}); err != nil || len(page.Batches) != 0 {
		t.Errorf("got %+v, %v, want nothing submitted", page, err)
	}
}

// A command that finds no room for all of its jobs goes on when there is some.
func TestBatchBeyondQuota(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	quota, jobs := int64(100), 250
	if testing.Short() {
		quota, jobs = 50, 120
	}
	if _, err := b.Records.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{JobsQueued: quota}}); err != nil {
		t.Fatal(err)
	}
	b.work()
	path := b.file("jobs.jsonl", strings.Repeat(`{"runtime":"python","source":"1"}`+"\n", jobs))
	stdout, stderr, code := b.glovebox("", "batch", "submit", path)
	if code != exitOK || !regexp.MustCompile(fmt.Sprintf(`succeeded +%d`, jobs)).MatchString(stdout) {
		t.Errorf("got exit code %d:\n%s\n%s", code, stdout, stderr)
	}
}

// Links that lie where results go lead nowhere.
func TestBatchOutLinks(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.work()
	path := b.file("jobs.jsonl", `{"runtime":"python","source":"1"}`)
	for _, link := range []string{"artifacts", "results.jsonl", ".results.jsonl.part"} {
		out, outside := t.TempDir(), t.TempDir()
		target := filepath.Join(outside, "x")
		if link == "artifacts" {
			target = outside
		}
		if err := os.Symlink(target, filepath.Join(out, link)); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := b.glovebox("", "batch", "submit", path, "--out", out)
		if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
			t.Errorf("%s: something was written outside: %v, %v", link, left, err)
		}
		if refused := code == exitFailed && strings.Contains(stderr, "escapes"); refused != (link == "artifacts") {
			t.Errorf("%s: got exit code %d:\n%s", link, code, stderr)
		}
	}
}
