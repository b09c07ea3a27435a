package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// TestSession: executions take turns in their order, each once, whatever answers get lost; the api and the worker are
// the users of Redis that they are.
func TestSession(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	if x.State != job.SessionQueued || x.Settings.IdleSeconds != job.DefaultIdleSeconds || x.Expires.Sub(x.Created) != time.Hour {
		t.Errorf("got %+v", x)
	}
	if got := tasks(t, r.api, queue.Sessions("python", "")); !slices.Equal(got, []string{x.ID + ".1"}) {
		t.Errorf("got tasks %v, want the session's", got)
	}
	first := r.api.execute(t, x.ID, "1") // before anybody holds the session
	listener := r.worker.ListenTurns(ctx, "w1")
	defer listener.Close()
	woken, stop := listener.Wait(x.ID)
	defer stop()
	r.worker.mustClaim(t, x.ID)
	r.worker.mustClaim(t, x.ID) // the answer got lost
	if _, err := r.worker.ClaimSession(ctx, x.ID, "w2"); !errors.Is(err, ErrTaken) {
		t.Errorf("another worker claims: got %v, want ErrTaken", err)
	}
	if _, err := r.worker.TakeTurn(ctx, x.ID, "w2", "", nil, Rest{Slot: true}); !errors.Is(err, job.ErrSessionEnded) {
		t.Errorf("another worker takes: got %v, want ErrSessionEnded", err)
	}
	for range 2 { // the answer got lost
		if j := r.worker.take(t, x.ID, "", first); j.State != job.Running || j.Attempts != 1 || j.Sequence != 1 || j.Session != x.ID || j.Spec.Source != "1" {
			t.Errorf("got %+v", j)
		}
	}
	canceled, second := r.api.execute(t, x.ID, "0"), r.api.execute(t, x.ID, "2")
	gbtest.Eventually(t, "the worker is woken", func() bool {
		select {
		case <-woken:
			return true
		default:
			return false
		}
	})
	if status, err := r.api.Cancel(ctx, canceled, []byte(`{}`)); err != nil || status != job.Canceled {
		t.Errorf("cancel one that waits: got %s, %v", status, err)
	}
	if got := r.api.mustSession(t, x.ID); got.State != job.SessionBusy || got.Execution != first || got.Executions != 1 {
		t.Errorf("got %+v, want it busy with %s", got, first)
	}
	if j, err := r.worker.TakeTurn(ctx, x.ID, "w1", "", nil, Rest{}); err != nil || j.ID != first {
		t.Errorf("what it has taken, without a slot: got %s, %v, want %s", j.ID, err, first)
	}
	r.worker.endTurn1(t, first)
	for range 2 {
		if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", first, nil, Rest{}); !errors.Is(err, ErrNoSlot) {
			t.Errorf("without a slot: got %v, want ErrNoSlot", err)
		}
	}
	if got, err := r.api.Get(ctx, second); err != nil || got.State != job.Queued {
		t.Errorf("without a slot: got %s, %v, want it queued", got.State, err)
	}
	j := r.worker.take(t, x.ID, first, second)
	if j.Sequence != 2 {
		t.Errorf("got sequence %d, want 2", j.Sequence)
	}
	r.worker.endTurn1(t, second)
	if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", second, map[string]int{job.MainContext: 1}, Rest{Slot: true}); !errors.Is(err, ErrNoTurn) {
		t.Errorf("nobody waits: got %v, want ErrNoTurn", err)
	}
	if got := r.api.mustSession(t, x.ID); got.State != job.SessionReady || got.Execution != "" || got.Executions != 2 || got.Generation != 2 {
		t.Errorf("got %+v, want it ready", got)
	}
	third := r.api.execute(t, x.ID, "3")
	j = r.worker.take(t, x.ID, second, third)
	if err := r.worker.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte(`{}`), Rested: true}); err != nil {
		t.Fatal(err)
	}
	if got := r.api.mustSession(t, x.ID); got.State != job.SessionReady || got.Execution != "" || got.Executions != 3 {
		t.Errorf("got %+v, want it ready as soon as its execution has ended", got)
	}
	before := r.api.rdb.HGetAll(ctx, sessionKey("acme", x.ID)).Val()
	if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", third, nil, Rest{Slot: true}); !errors.Is(err, ErrNoTurn) {
		t.Errorf("nobody waits: got %v, want ErrNoTurn", err)
	}
	if d := cmp.Diff(before, r.api.rdb.HGetAll(ctx, sessionKey("acme", x.ID)).Val()); d != "" {
		t.Errorf("a look that finds nothing has written (-before +after):\n%s", d)
	}
	if n := r.api.rdb.HLen(ctx, runningKey("acme")).Val() + r.api.rdb.ZCard(ctx, openKey("acme")).Val(); n != 0 {
		t.Errorf("executions have %d places in the tenant's window, want none", n)
	}
}

// TestSessionHead: how far a session's chain goes is in its record with the end of each execution, once; that of one that is forgotten is in none.
func TestSessionHead(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.worker.mustClaim(t, x.ID)
	head := strings.Repeat("a", 64)
	for n, e := range []Ending{{Head: head, Attested: 1}, {}} { // the second is not attested
		j := r.worker.take(t, x.ID, "", r.api.execute(t, x.ID, "1"))
		e.Status, e.Result, e.Rested = job.Succeeded, []byte(`{}`), true
		if err := r.worker.End(ctx, j, e); err != nil {
			t.Fatal(err)
		}
		e.Head, e.Attested = strings.Repeat("b", 64), 7
		if err := r.worker.End(ctx, j, e); !errors.Is(err, job.ErrEnded) {
			t.Errorf("got %v, want that it has ended", err)
		}
		if got := r.api.mustSession(t, x.ID); got.Head != head || got.Attested != 1 {
			t.Errorf("after execution %d: got head %q of %d", n+1, got.Head, got.Attested)
		}
	}
	j := r.worker.take(t, x.ID, "", r.api.execute(t, x.ID, "1"))
	key := sessionKey("acme", x.ID)
	if err := r.admin.HSet(ctx, key, "head", "<b>").Err(); err != nil { // a worker's word
		t.Fatal(err)
	}
	if got := r.api.mustSession(t, x.ID); got.Head != "" {
		t.Errorf("got head %q, which is none", got.Head)
	}
	if err := r.admin.Del(ctx, key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.worker.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte(`{}`), Head: head, Attested: 2}); err != nil {
		t.Fatal(err)
	}
	if n, err := r.admin.Exists(ctx, key).Result(); err != nil || n != 0 {
		t.Errorf("got %d, %v, want no record", n, err)
	}
}

// TestSessionIsPaused: the record says so as long as its worker does, and what waits is told with it; an execution is none of a paused session.
func TestSessionIsPaused(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.worker.mustClaim(t, x.ID)
	take := func(done string, rest Rest, want error, state job.SessionStatus) {
		t.Helper()
		if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", done, nil, rest); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if got := r.api.mustSession(t, x.ID); got.State != state { //nolint:contextcheck // it has the test's
			t.Errorf("got %s, want %s", got.State, state)
		}
	}
	take("", Rest{Paused: true}, ErrNoTurn, job.SessionPaused) // before anything else
	if got := r.api.mustSession(t, x.ID); got.Ready.IsZero() {
		t.Error("it was never ready")
	}
	take("", Rest{}, ErrNoTurn, job.SessionReady)
	take("", Rest{Paused: true}, ErrNoTurn, job.SessionPaused)
	first := r.api.execute(t, x.ID, "1")
	take("", Rest{Paused: true}, ErrNoSlot, job.SessionPaused)
	for range 2 { // the answer got lost
		take("", Rest{Paused: true, Slot: true}, nil, job.SessionBusy)
	}
	r.worker.endTurn1(t, first)
	take(first, Rest{Paused: true}, ErrNoTurn, job.SessionPaused) // its files were gone, so nothing of it was executed
	second := r.api.execute(t, x.ID, "2")
	take(first, Rest{Paused: true, Slot: true}, nil, job.SessionBusy)
	r.worker.endTurn1(t, second)
	take(second, Rest{Slot: true}, ErrNoTurn, job.SessionReady)
	take(second, Rest{Paused: true}, ErrNoTurn, job.SessionPaused)
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	take(second, Rest{Paused: true}, job.ErrSessionEnded, job.SessionEnded)
}
