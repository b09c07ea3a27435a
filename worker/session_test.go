package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// sessionWorker has memory for two sessions, and for jobs.
func sessionWorker(c *worker.Config) { c.MemoryMB = 4096 }

func (g *glovebox) openSession(settings job.SessionSettings) string {
	g.t.Helper()
	x, err := g.records.OpenSession(g.t.Context(), "default", settings, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return x.ID
}

func (g *glovebox) execute(session, code string) string {
	g.t.Helper()
	id := job.NewID("default")
	spec := job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: code})
	if err := g.records.AddTurn(g.t.Context(), session, id, spec, record.NewTurn{}); err != nil {
		g.t.Fatal(err)
	}
	return id
}

// begun waits until an execution prints that it has begun. One that is canceled before is not executed, and its result says nothing of its session.
func (g *glovebox) begun(id string) {
	g.t.Helper()
	gbtest.Eventually(g.t, "the execution prints that it has begun", func() bool {
		if _, err := g.records.Watch(g.t.Context(), id); err != nil {
			return false
		}
		events, err := g.records.Events(g.t.Context(), id, "", 100)
		return err == nil && slices.ContainsFunc(events, func(e record.Event) bool {
			return e.Type == record.EventStdout && strings.HasPrefix(string(e.Data), "begun\n")
		})
	})
}

// session waits until the session is in that state.
func (g *glovebox) session(id string, want job.SessionStatus) (x record.Session) {
	g.t.Helper()
	gbtest.Eventually(g.t, "session is "+string(want), func() bool {
		var err error
		x, err = g.records.GetSession(g.t.Context(), id)
		return err == nil && x.State == want
	})
	return x
}

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

// TestSessionEnds: idle, at the end of its time, deleted, out of memory, and with its worker; what ran and waited is told.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.MemoryMB = 8192 })
	ctx := t.Context()
	limits := job.Limits{WallMS: 60_000}
	idle := g.openSession(job.SessionSettings{Runtime: "python", IdleSeconds: 1, Limits: limits})
	if x := g.session(idle, job.SessionEnded); x.EndReason != job.EndIdle {
		t.Errorf("got %+v, want it idle", x)
	}
	spent := g.openSession(job.SessionSettings{Runtime: "python", Limits: limits, Budget: &job.SessionBudget{CPUMS: 200}})
	used := g.execute(spent, "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass")
	refused := g.execute(spent, "1")
	if r := g.result(used); r.Status != job.Succeeded {
		t.Errorf("got %+v, want that what uses up the budget goes on", r)
	}
	if r := g.result(refused); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
		t.Errorf("got %+v, want it canceled, session_ended", r)
	}
	if x := g.session(spent, job.SessionEnded); x.EndReason != job.EndBudget || x.CPUMS < 400 || x.Executions != 1 {
		t.Errorf("got %+v, want its budget spent", x)
	}
	deleted := g.openSession(job.SessionSettings{Runtime: "python", Limits: limits})
	runs, waits := g.execute(deleted, "while True: pass"), g.execute(deleted, "1")
	g.state(runs, job.Running)
	if err := g.records.EndSession(ctx, deleted, "", job.SessionEnd{Reason: job.EndDeleted, Message: "gone"}); err != nil {
		t.Fatal(err)
	}
	for _, execution := range []string{runs, waits} {
		if r := g.result(execution); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
			t.Errorf("got %+v, want it canceled, session_ended", r)
		}
	}
	ttl := g.openSession(job.SessionSettings{Runtime: "python", TTLSeconds: 20, Limits: limits})
	runs = g.execute(ttl, "import time\nwhile True: time.sleep(1)")
	if r := g.result(runs); r.Status != job.Canceled {
		t.Errorf("got %+v, want it canceled as the time of its session is over", r)
	}
	if x := g.session(ttl, job.SessionEnded); x.EndReason != job.EndTTL {
		t.Errorf("got %+v, want ttl", x)
	}
	drained := g.openSession(job.SessionSettings{Runtime: "python", Limits: limits})
	g.result(g.execute(drained, "x = 1"))
	waiting := g.execute(drained, "import time; time.sleep(1); print(x)")
	g.state(waiting, job.Running)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if r := g.result(waiting); r.Status != job.Succeeded || r.Stdout != "1\n" {
		t.Errorf("got %+v, want it ended within the grace", r)
	}
	if x := g.session(drained, job.SessionEnded); x.EndReason != job.EndDrained {
		t.Errorf("got %+v, want drained", x)
	}
	if err := g.records.AddTurn(ctx, drained, job.NewID("default"), job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: "1"}), record.NewTurn{}); !errors.Is(err, job.ErrSessionEnded) {
		t.Errorf("got %v, want ErrSessionEnded", err)
	}
}

// TestSessionsBesideJobs: sessions hold half of a worker's memory at most, and jobs go on beside them.
func TestSessionsBesideJobs(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.MemoryMB, c.Concurrency = 1024, 1 })
	held := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 300}})
	g.session(held, job.SessionReady)
	next := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 300}})
	if r := g.result(g.submit(job.Spec{Runtime: "python", Source: "print(1)", Limits: job.Limits{MemoryMB: 300}})); r.Stdout != "1\n" {
		t.Errorf("got %+v", r)
	}
	if x := g.session(next, job.SessionQueued); x.Worker != "" {
		t.Errorf("got %+v, want that nobody holds it", x)
	}
	if err := g.records.EndSession(t.Context(), held, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	g.session(next, job.SessionReady)
	if b, err := json.Marshal(g.session(next, job.SessionReady).Settings.Limits); err != nil || !strings.Contains(string(b), "300") {
		t.Errorf("got %s, %v", b, err)
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

// broken is a Podman that answers, and makes no sandbox as long as it is so.
type broken struct {
	worker.Sandboxes
	so *atomic.Bool
}

func (b broken) Run(ctx context.Context, p sandbox.Program, s sandbox.Sink) (sandbox.Outcome, error) {
	if b.so.Load() {
		return sandbox.Outcome{}, errors.New("no sandbox can be made")
	}
	return b.Sandboxes.Run(ctx, p, s)
}

// TestSessionGivenBack: a session that comes to a worker which can make no sandbox is not lost by that: the worker that can has it, with what waits for it.
func TestSessionGivenBack(t *testing.T) {
	t.Parallel()
	so := new(atomic.Bool)
	g := start(t, func(c *worker.Config) {
		sessionWorker(c)
		c.Sandboxes = broken{c.Sandboxes, so}
	})
	so.Store(true)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	waits := g.execute(id, "print(6 * 7)")
	g.says("session given back before it began")
	if x := g.session(id, job.SessionQueued); x.Worker != "" {
		t.Errorf("got %+v, want that nobody holds it", x)
	}
	able := g.another(sessionWorker)
	if r := able.result(waits); r.Stdout != "42\n" || r.Worker != able.id || r.Session.Generation != 1 {
		t.Errorf("got %+v, want it executed by %s", r, able.id)
	}
}

// TestSessionExtended: a session that is given more time goes on past what its worker took it with, while it executes and between two executions, also where nobody
// was told; and the message of a shorter time that was lost is made up for by the next look.
func TestSessionExtended(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.MemoryMB = 8192 })
	ctx := t.Context()
	o, err := redis.ParseURL(g.redis.Admin())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	defer admin.Close()
	untold := func(id string, expires time.Time) { // a change whose message is lost
		t.Helper()
		if err := admin.HSet(ctx, "gb:{default}:session:"+id, "expires", expires.UnixMilli(), "idle", 600).Err(); err != nil {
			t.Fatal(err)
		}
	}
	told := func(id string) {
		t.Helper()
		more := int64(600)
		if _, err := g.records.ChangeSession(ctx, id, job.SessionChange{TTLSeconds: &more, IdleSeconds: &more}); err != nil {
			t.Fatal(err)
		}
	}
	// Each is extended as soon as it has begun, for what starts slowly.
	begin := func() (id string) {
		id = g.openSession(job.SessionSettings{Runtime: "python", TTLSeconds: 60, IdleSeconds: 60, Limits: job.Limits{WallMS: 300_000}})
		g.result(g.execute(id, "x = 41"))
		return id
	}
	executes := begin()
	endless := g.execute(executes, "import time; print('begun', flush=True)\nwhile True: time.sleep(0.1)")
	g.begun(endless)
	told(executes)
	waits := begin()
	told(waits)
	lost := begin()
	untold(lost, time.Now().Add(10*time.Minute))
	over := time.Now().Add(61 * time.Second)
	gbtest.Eventually(t, "the time that they had is over", func() bool { return time.Now().After(over) })
	if j, err := g.records.Get(ctx, endless); err != nil || j.State != job.Running {
		t.Errorf("got %s %s, %v, want that it goes on past the time that its session had", j.State, j.Result, err)
	}
	if _, err := g.records.Cancel(ctx, endless, nil); err != nil {
		t.Fatal(err)
	}
	if r := g.result(endless); r.Status != job.Canceled || r.Session.State != job.StateKept {
		t.Errorf("got %+v, want its state kept", r)
	}
	for what, id := range map[string]string{"while it executed": executes, "between executions": waits, "and nobody was told": lost} {
		if r := g.result(g.execute(id, "print(x + 1)")); r.Status != job.Succeeded || r.Stdout != "42\n" || r.Session.Generation != 1 {
			t.Errorf("extended %s: got %+v, want its state kept", what, r)
		}
	}
	begun := time.Now()
	untold(lost, begun)
	if x := g.session(lost, job.SessionEnded); x.EndReason != job.EndTTL || x.Finished.Sub(begun) > time.Minute {
		t.Errorf("got %+v, want it ended by the next look", x)
	}
}
