package worker_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// TestSessionKeepsState: what one execution leaves, the next finds; each is a job of its own, with its output and its files.
func TestSessionKeepsState(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	for runtime, steps := range map[string][]struct{ code, stdout string }{
		"python": {
			{"x = 20", ""},
			{"open('a.txt', 'w').write('kept'); x += 1; print(x)", "21\n"},
			{"print(open('a.txt').read(), x * 2)", "kept 42\n"},
		},
		"node": {
			{"const y = 20", ""},
			{"require('fs').writeFileSync('a.txt', 'kept'); console.log(y + 1)", "21\n"},
			{"console.log(require('fs').readFileSync('a.txt', 'utf8'), y)", "kept 20\n"},
		},
	} {
		id := g.openSession(job.SessionSettings{Runtime: runtime, Limits: job.Limits{WallMS: 60_000}})
		var executions []string
		for _, s := range steps { // all at once: they take turns
			executions = append(executions, g.execute(id, s.code))
		}
		for i, s := range steps {
			r := g.result(executions[i])
			if r.Status != job.Succeeded || r.Stdout != s.stdout || r.Session == nil {
				t.Fatalf("%s %q: got %+v", runtime, s.code, r)
			}
			if want := (job.ExecutionState{ID: id, Sequence: int64(i + 1), Generation: 1, State: job.StateKept}); !reflect.DeepEqual(*r.Session, want) {
				t.Errorf("%s %q: got %+v, want %+v", runtime, s.code, *r.Session, want)
			}
			files := 0
			if i == 1 {
				files = 1
			}
			if len(r.Artifacts) != files || r.Attestation != nil || r.Runtime.Name != runtime || r.Runtime.ImageDigest == "" {
				t.Errorf("%s %q: got %+v, want %d files that it changed", runtime, s.code, r, files)
			}
		}
		if x := g.session(id, job.SessionReady); x.Executions != 3 || x.Generation != 1 {
			t.Errorf("%s: got %+v", runtime, x)
		}
		if err := g.records.EndSession(t.Context(), id, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
			t.Fatal(err)
		}
	}
	gbtest.Eventually(t, "the sandboxes are gone", func() bool { return strings.Count(g.log.String(), `msg="session ends"`) == 2 })
}

// TestSessionOutlivesBucket: where the bucket is away as an execution ends, that waits, and its state stays.
func TestSessionOutlivesBucket(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	g.result(g.execute(id, "x = 41"))
	g.s3.Kill()
	for what, code := range map[string]string{
		"result": "x += 1; print('x' * 100_000)", // more than a record holds
		"file":   "open('large.txt', 'w').write('x' * 1_000_000)",
	} {
		g.s3.Kill()
		waits := g.execute(id, code)
		gbtest.Eventually(t, "the session waits for the bucket", func() bool {
			return strings.Contains(g.log.String(), "waiting for the bucket, to store an execution's "+what)
		})
		g.s3.Restart()
		r := g.result(waits)
		if r.Status != job.Succeeded || r.Session.State != job.StateKept {
			t.Errorf("%s: got %+v, want it succeeded, and its state kept", what, r)
		}
		if what == "file" && (len(r.Artifacts) != 1 || r.Artifacts[0].Size != 1_000_000) || what == "result" && r.StdoutURL == "" {
			t.Errorf("%s: got %+v", what, r)
		}
	}
	if r := g.result(g.execute(id, "print(x)")); r.Stdout != "42\n" || r.Session.Generation != 1 {
		t.Errorf("got %+v, want 42", r)
	}
}

// TestSessionFiles: an execution is given files, of the request, of an upload and of another job. One of a file that is gone fails, nothing of it is executed, and the
// state stays. It waits for a bucket that is away.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	ctx := t.Context()
	made := g.submit(job.Spec{Runtime: "bash", Source: "seq 100000 > numbers.txt"})
	numbers := g.result(made).Artifacts[0]
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	execute := func(code string, files ...job.File) string {
		t.Helper()
		execution := job.NewID("default")
		if err := g.records.AddTurn(ctx, id, execution, job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: code, Files: files}), record.NewTurn{}); err != nil {
			t.Fatal(err)
		}
		return execution
	}
	artifact := job.File{Name: "in/numbers.txt", Artifact: made + "/numbers.txt", Size: numbers.Size, SHA256: numbers.SHA256}
	if r := g.result(execute("x = sum(map(int, open('in/numbers.txt'))); print(x, open('note').read())", artifact, job.File{Name: "note", Content: "hello"})); r.Status != job.Succeeded || r.Stdout != "5000050000 hello\n" || len(r.Artifacts) > 0 {
		t.Errorf("got %+v", r)
	}
	changed := artifact
	changed.SHA256 = strings.Repeat("0", 64)
	for code, f := range map[string]job.File{job.CodeInputChanged: changed, job.CodeInputGone: {Name: "y", Artifact: job.NewID("default") + "/y", Size: 1, SHA256: numbers.SHA256}} {
		if r := g.result(execute("print('never')", f)); r.Status != job.Failed || r.Error == nil || r.Error.Code != code || r.Stdout != "" {
			t.Errorf("got %+v, want %s", r, code)
		}
	}
	g.s3.Kill()
	waits := execute("print(x)", artifact)
	gbtest.Eventually(t, "the session waits for the bucket", func() bool {
		return strings.Contains(g.log.String(), "waiting for the bucket, to read an execution's file")
	})
	g.s3.Restart()
	if r := g.result(waits); r.Status != job.Succeeded || r.Stdout != "5000050000\n" || r.Session.Generation != 1 {
		t.Errorf("got %+v, want the state kept", r)
	}
	g.s3.Kill()
	endless := execute("print('never')", artifact)
	g.state(endless, job.Running)
	if _, err := g.records.Cancel(ctx, endless, nil); err != nil {
		t.Fatal(err)
	}
	if r := g.result(endless); r.Status != job.Canceled {
		t.Errorf("got %+v, want it canceled as it waited", r)
	}
	if r := g.result(g.execute(id, "print(x)")); r.Stdout != "5000050000\n" {
		t.Errorf("got %+v", r)
	}
	g.s3.Restart()
}

// TestSessionInterrupt: an execution that is canceled ends and its state stays; one that ends its interpreter says so, and
// the next has another and the same files; what passes its time is interrupted.
func TestSessionInterrupt(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	ctx := t.Context()
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	g.result(g.execute(id, "x = 1; open('f', 'w').write('here')"))
	endless, waits := g.execute(id, "print('begun', flush=True)\nwhile True: pass"), g.execute(id, "print(x)")
	g.begun(endless)
	if status, err := g.records.Cancel(ctx, endless, nil); err != nil || status != job.Running {
		t.Fatalf("got %s, %v", status, err)
	}
	if r := g.result(endless); r.Status != job.Canceled || r.Session.State != job.StateKept {
		t.Errorf("got %+v, want it canceled and its state kept", r)
	}
	if r := g.result(waits); r.Stdout != "1\n" {
		t.Errorf("got %+v, want 1", r)
	}
	if r := g.result(g.execute(id, "import os; os._exit(3)")); r.Status != job.Failed || r.Session.State != job.StateLost || r.Session.Generation != 1 {
		t.Errorf("got %+v, want it failed and its state lost", r)
	}
	if r := g.result(g.execute(id, "print('x' in globals(), open('f').read())")); r.Stdout != "False here\n" || r.Session.Generation != 2 || r.Session.State != job.StateKept {
		t.Errorf("got %+v, want a new interpreter and the file", r)
	}
	brief := job.NewID("default")
	spec := job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: "import time; time.sleep(1000)", WallMS: 1000})
	if err := g.records.AddTurn(ctx, id, brief, spec, record.NewTurn{}); err != nil {
		t.Fatal(err)
	}
	if r := g.result(brief); r.Status != job.TimedOut || r.Session.State != job.StateKept {
		t.Errorf("got %+v, want it timed out and its state kept", r)
	}
}

// TestSessionWaitsForSlot: an execution that waits for a slot is queued: it is canceled at once, its session can be ended, and a
// tenant's own long executions don't hold up another's.
func TestSessionWaitsForSlot(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.MemoryMB, c.Concurrency = 8192, 1 })
	ctx := t.Context()
	limits := job.Limits{WallMS: 300_000}
	first, second := g.openSession(job.SessionSettings{Runtime: "python", Limits: limits}), g.openSession(job.SessionSettings{Runtime: "python", Limits: limits})
	g.session(second, job.SessionReady)
	endless := g.execute(first, "while True: pass")
	g.state(endless, job.Running)
	canceled, waits := g.execute(second, "1"), g.execute(second, "2")
	if status, err := g.records.Cancel(ctx, canceled, nil); err != nil || status != job.Canceled {
		t.Errorf("cancel: got %s, %v, want it canceled at once", status, err)
	}
	if j, err := g.records.Get(ctx, waits); err != nil || j.State != job.Queued {
		t.Errorf("got %s, %v, want it queued", j.State, err)
	}
	if err := g.records.EndSession(ctx, second, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	if r := g.result(waits); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
		t.Errorf("got %+v, want it canceled, session_ended", r)
	}
	third := g.openSession(job.SessionSettings{Runtime: "python", Limits: limits})
	late := g.execute(third, "3")
	g.session(third, job.SessionReady)
	if _, err := g.records.Cancel(ctx, endless, nil); err != nil {
		t.Fatal(err)
	}
	if r := g.result(late); r.Status != job.Succeeded || r.Stdout != "3\n" {
		t.Errorf("got %+v, want it executed once there is a slot", r)
	}
}
