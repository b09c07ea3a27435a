package record

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// openFork asks for a fork of the session.
func (s *Store) openFork(t *testing.T, of Session) Session {
	t.Helper()
	x, err := s.OpenFork(t.Context(), of, of.Settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestFork: a fork waits in its session's line, is taken by that one's worker in its turn, once, and goes on with its contexts, its count and its chain.
func TestFork(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	if _, err := r.api.OpenFork(ctx, x, x.Settings, nil); !errors.Is(err, job.ErrUnforkable) {
		t.Errorf("of one that nobody holds: got %v, want ErrUnforkable", err)
	}
	if _, err := r.worker.ClaimForkable(ctx, x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	first := r.api.execute(t, x.ID, "1")
	if err := r.api.MakeContext(ctx, x.ID, "js", job.ContextSettings{Language: "javascript", Directory: "d"}); err != nil {
		t.Fatal(err)
	}
	fork := r.api.openFork(t, x)
	behind := r.api.execute(t, x.ID, "2")
	if fork.State != job.SessionQueued || fork.ForkOf != x.ID || fork.Worker != "" {
		t.Errorf("got %+v", fork)
	}
	head := strings.Repeat("a", 64)
	if err := r.worker.End(ctx, r.worker.take(t, x.ID, "", first), Ending{Status: job.Succeeded, Result: []byte(`{}`), Head: head, Attested: 1}); err != nil {
		t.Fatal(err)
	}
	var is *ForkError
	for range 2 { // an answer can be lost
		if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", first, nil, Rest{Slot: true}); !errors.As(err, &is) || is.ID != fork.ID {
			t.Fatalf("got %v, want the fork", err)
		}
	}
	if _, err := r.worker.TakeFork(ctx, fork.ID, x.ID, "w2"); !errors.Is(err, ErrStale) {
		t.Errorf("another worker takes it: got %v, want ErrStale", err)
	}
	again := r.api.openFork(t, x)
	for range 2 {
		got, err := r.worker.TakeFork(ctx, fork.ID, x.ID, "w1")
		if err != nil || got.Worker != "w1" || got.Executions != 1 || got.ForkedAt != 1 || got.Generation != 1 || got.Head != head || got.Attested != 1 || len(got.Contexts) != 2 || got.Contexts[1].Directory != "d" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	r.worker.take(t, x.ID, first, behind) // the other fork waits behind it
	if r.admin.HGet(ctx, heldKey("acme"), fork.ID).Val() != "1 w1" {
		t.Error("nobody would notice that its worker is lost")
	}
	if j := r.worker.take(t, fork.ID, "", r.api.execute(t, fork.ID, "3")); j.Sequence != 2 {
		t.Errorf("its first execution has number %d, want 2", j.Sequence)
	}
	// What waits to be forked ends with its session, what is forked doesn't.
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	if got := r.api.mustSession(t, again.ID); got.State != job.SessionEnded || got.EndReason != job.EndFailed {
		t.Errorf("got %+v, want it ended", got)
	}
	if got := r.api.mustSession(t, fork.ID); got.State != job.SessionBusy {
		t.Errorf("got %+v, want that it goes on", got)
	}
	if _, err := r.api.OpenFork(ctx, r.api.mustSession(t, x.ID), x.Settings, nil); !errors.Is(err, job.ErrSessionEnded) {
		t.Errorf("of one that has ended: got %v", err)
	}
}

// TestForkLost: a fork that no line has, as a worker that knows no forks has dropped it, or whose session is gone, ends; one that waits stays. It never gets a task, which any worker would begin
// as a new session.
func TestForkLost(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	w, _ := sweepingOver(r.api)
	x := r.api.openSession(t, "acme")
	if _, err := r.worker.ClaimForkable(ctx, x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	waits, dropped := r.api.openFork(t, x), r.api.openFork(t, x)
	r.admin.LRem(ctx, turnsKey("acme", x.ID), 0, dropped.ID)
	foreign := r.api.openSession(t, "other")
	if _, err := r.worker.TakeFork(ctx, foreign.ID, x.ID, "w1"); !errors.Is(err, job.ErrNoSession) {
		t.Errorf("another tenant's session as a fork: got %v", err)
	}
	if _, err := r.worker.TakeFork(ctx, r.api.openSession(t, "acme").ID, x.ID, "w1"); !errors.Is(err, job.ErrNoSession) {
		t.Errorf("a session that is no fork: got %v", err)
	}
	w.forward(time.Minute)
	w.pass(ctx, sessionPass, w.sweepSessions)
	if got := r.api.mustSession(t, dropped.ID); got.State != job.SessionEnded {
		t.Errorf("one that no line has: got %+v", got)
	}
	if got := r.api.mustSession(t, waits.ID); got.State != job.SessionQueued {
		t.Errorf("one that waits: got %+v", got)
	}
}

// TestForkQuotas: a fork counts as a session does, and waits as an execution does.
func TestForkQuotas(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{Sessions: 2}}); err != nil {
		t.Fatal(err)
	}
	x, other := r.api.openSession(t, "acme"), r.api.openSession(t, "other")
	for _, one := range []Session{x, other} {
		if _, err := r.worker.ClaimForkable(ctx, one.ID, "w1"); err != nil {
			t.Fatal(err)
		}
	}
	r.api.openFork(t, x)
	if _, err := r.api.OpenFork(ctx, x, x.Settings, nil); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a third session: got %v, want quota_exceeded", err)
	}
	r.api.openFork(t, other)
	var waiting string
	for range job.MaxWaitingTurns - 1 {
		waiting = r.api.execute(t, other.ID, "1")
	}
	if _, err := r.api.OpenFork(ctx, other, other.Settings, nil); !errors.Is(err, job.ErrSessionBusy) {
		t.Errorf("one more than may wait: got %v, want ErrSessionBusy", err)
	}
	if err := r.api.AddTurn(ctx, other.ID, job.NewID("other"), pythonSession.Spec(job.SessionExecution{Code: "1"}), NewTurn{}); !errors.Is(err, job.ErrSessionBusy) {
		t.Errorf("an execution behind them: got %v, want ErrSessionBusy", err)
	}
	if _, err := r.api.Cancel(ctx, waiting, nil); err != nil {
		t.Fatal(err)
	}
	r.api.openFork(t, other) // in its place
}
