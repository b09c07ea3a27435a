package worker_test

import (
	"context"
	"encoding/json"
	"errors"
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
