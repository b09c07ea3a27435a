package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// TestSessionEnds: what runs and what waits ends with its session, nothing of it begins any more, and it is forgotten.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	for name, tc := range map[string]struct {
		by     *Store
		worker string
		reason string
		runs   string
	}{
		"deleted": {r.api, "", job.EndDeleted, "canceled session_ended"},
		"lost":    {r.worker, "w1", job.EndMemory, "internal_error session_lost"},
	} {
		x := r.api.openSession(t, "acme")
		r.worker.mustClaim(t, x.ID)
		runs, waits := r.api.execute(t, x.ID, "1"), r.api.execute(t, x.ID, "2")
		r.worker.take(t, x.ID, "", runs)
		if err := tc.by.EndSession(ctx, x.ID, "w2", job.SessionEnd{Reason: tc.reason}); !errors.Is(err, ErrStale) {
			t.Errorf("%s: another worker ends it: got %v, want ErrStale", name, err)
		}
		if err := tc.by.EndSession(ctx, x.ID, tc.worker, job.SessionEnd{Reason: tc.reason, Message: "so"}); err != nil {
			t.Fatal(err)
		}
		if got := r.api.outcome(t, runs); got != tc.runs {
			t.Errorf("%s: what ran is %s, want %s", name, got, tc.runs)
		}
		if got := r.api.outcome(t, waits); got != "canceled session_ended" {
			t.Errorf("%s: what waited is %s, want canceled session_ended", name, got)
		}
		if got := r.api.mustSession(t, x.ID); got.State != job.SessionEnded || got.EndReason != tc.reason || got.Finished.IsZero() {
			t.Errorf("%s: got %+v", name, got)
		}
		if err := r.api.AddTurn(ctx, x.ID, job.NewID("acme"), pythonSession.Spec(job.SessionExecution{Code: "1"}), NewTurn{}); !errors.Is(err, job.ErrSessionEnded) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: execute: got %v, want the reason", name, err)
		}
		if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", runs, nil, Rest{Slot: true}); !errors.Is(err, job.ErrSessionEnded) {
			t.Errorf("%s: take: got %v, want ErrSessionEnded", name, err)
		}
		if err := tc.by.EndSession(ctx, x.ID, tc.worker, job.SessionEnd{Reason: job.EndTTL}); !errors.Is(err, job.ErrSessionEnded) {
			t.Errorf("%s: end again: got %v, want ErrSessionEnded", name, err)
		}
	}
	if n := r.api.rdb.ZCard(ctx, sessionWorkKey("acme")).Val() + r.api.rdb.HLen(ctx, heldKey("acme")).Val(); n != 0 {
		t.Errorf("%d entries of ended sessions are left", n)
	}
	// Their records, and those of their executions, expire.
	keys, err := r.admin.Keys(ctx, "gb:{acme}:session:*").Result()
	if err != nil || len(keys) != 2 {
		t.Fatalf("got %v, %v, want 2 sessions", keys, err)
	}
	w, _ := sweepingOver(r.api)
	for _, pattern := range []string{"gb:{acme}:session:*", "gb:{acme}:job:*"} {
		for _, key := range r.admin.Keys(ctx, pattern).Val() {
			if life := r.admin.PTTL(ctx, key).Val(); life <= 0 {
				t.Errorf("%s lives %v, want for a while", key, life)
			}
			r.admin.Del(ctx, key)
		}
	}
	w.forward(8 * 24 * time.Hour)
	w.pass(ctx, garbagePass, w.sweepGarbage)
	for _, key := range []string{sessionsKey("acme"), jobsKey("acme"), recordedKey("acme")} {
		if r.admin.Exists(ctx, key).Val() != 0 {
			t.Errorf("%s is still there", key)
		}
	}
}

// TestSessionOfLostWorker: the session and its executions end once no beat names it; one that is named stays.
func TestSessionOfLostWorker(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	w, _ := sweepingOver(r.api)
	lost, kept := r.api.openSession(t, "acme"), r.api.openSession(t, "other")
	for _, x := range []Session{lost, kept} {
		r.worker.mustClaim(t, x.ID)
	}
	runs, waits := r.api.execute(t, lost.ID, "1"), r.api.execute(t, lost.ID, "2")
	r.worker.take(t, lost.ID, "", runs)
	if err := r.admin.Set(ctx, "gb:worker:w1", `{"id":"w1","jobs":["`+kept.ID+`"]}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	reap := func() {
		if err := w.reap(ctx, "acme", "other"); err != nil {
			t.Fatal(err)
		}
	}
	reap()
	if got := r.api.mustSession(t, lost.ID); got.State != job.SessionBusy {
		t.Fatalf("got %s, want it busy until its worker is lost", got.State)
	}
	w.forward(lostAfter)
	reap()
	if got := r.api.mustSession(t, lost.ID); got.State != job.SessionEnded || got.EndReason != job.EndWorkerLost {
		t.Errorf("the lost one: got %+v", got)
	}
	if got := r.api.outcome(t, runs); got != "internal_error session_lost" {
		t.Errorf("what ran is %s", got)
	}
	if got := r.api.outcome(t, waits); got != "canceled session_ended" {
		t.Errorf("what waited is %s", got)
	}
	if got := r.api.mustSession(t, kept.ID); got.State == job.SessionEnded {
		t.Errorf("the one that is named has ended: %+v", got)
	}
	if n := r.api.rdb.HLen(ctx, heldKey("acme")).Val(); n != 0 {
		t.Errorf("%d sessions are held, want none", n)
	}
}

// TestSweepSessions: a session whose task is lost gets another, what is past its time ends, and so do executions that a
// process which died had not ended with their session.
func TestSweepSessions(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	w, _ := sweepingOver(r.api)
	queued, held, ended := r.api.openSession(t, "acme"), r.api.openSession(t, "acme"), r.api.openSession(t, "acme")
	r.worker.mustClaim(t, held.ID)
	waits := r.api.execute(t, ended.ID, "1")
	r.admin.HSet(ctx, sessionKey("acme", ended.ID), "state", "ended", "reason", job.EndDeleted)
	r.admin.ZAdd(ctx, sessionWorkKey("acme"), redis.Z{Member: "rubbish"})
	for _, key := range r.admin.Keys(ctx, "asynq:{sessions:*").Val() {
		r.admin.Del(ctx, key)
	}
	sweep := func(d time.Duration) {
		w.forward(d)
		if err := w.sweepSessions(ctx, "acme"); err != nil {
			t.Fatal(err)
		}
	}
	sweep(sweepDelay)
	if got := tasks(t, r.api, queue.Sessions("python", "")); !slices.Equal(got, []string{queued.ID + ".1"}) {
		t.Errorf("got tasks %v, want that of %s alone", got, queued.ID)
	}
	if got := r.api.outcome(t, waits); got != "canceled session_ended" {
		t.Errorf("what waited is %s", got)
	}
	sweep(time.Hour + time.Second)
	if got := r.api.mustSession(t, queued.ID); got.EndReason != job.EndFailed {
		t.Errorf("the one that nobody took: got %+v, want it failed", got)
	}
	if got := r.api.mustSession(t, held.ID); got.State == job.SessionEnded {
		t.Errorf("got %+v, want it left to its worker", got)
	}
	sweep(time.Hour + expiredGrace + time.Second)
	if got := r.api.mustSession(t, held.ID); got.EndReason != job.EndTTL {
		t.Errorf("got %+v, want it ended", got)
	}
	sweep(time.Hour + time.Minute + recheckDelay)
	if n := r.api.rdb.ZCard(ctx, sessionWorkKey("acme")).Val(); n != 0 {
		t.Errorf("%d entries are left, want none", n)
	}
}

// TestSessionsOfStoppedTenant: an operator who stops a tenant ends its sessions.
func TestSessionsOfStoppedTenant(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{Disabled: true}); err != nil {
		t.Fatal(err)
	}
	x, other := r.api.openSession(t, "acme"), r.api.openSession(t, "other")
	waits := r.api.execute(t, x.ID, "1")
	if _, err := r.api.StopTenant(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	if got := r.api.mustSession(t, x.ID); got.EndReason != job.EndStopped {
		t.Errorf("got %+v", got)
	}
	if got := r.api.outcome(t, waits); got != "canceled session_ended" {
		t.Errorf("what waited is %s", got)
	}
	if got := r.api.mustSession(t, other.ID); got.State == job.SessionEnded {
		t.Error("another tenant's session has ended")
	}
}

// TestSessionEndsWhatRuns: the worker is told of an execution that ends with its session, once its record says so.
func TestSessionEndsWhatRuns(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	cancels := r.worker.ListenCancel(ctx)
	defer cancels.Close()
	cancels.Subscribed(t, r.api.rdb, cancelChannel)
	for _, end := range []struct{ worker, reason string }{{"", job.EndDeleted}, {"w1", job.EndWorkerLost}} {
		x := r.api.openSession(t, "acme")
		r.worker.mustClaim(t, x.ID)
		id := r.api.execute(t, x.ID, "while True: pass")
		r.worker.take(t, x.ID, "", id)
		woken, stop := cancels.Wait(id)
		defer stop()
		if err := r.api.EndSession(ctx, x.ID, end.worker, job.SessionEnd{Reason: end.reason}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-woken:
		case <-time.After(gbtest.AtOnce):
			t.Errorf("%s: the worker was not told", end.reason)
		}
		if j, err := r.worker.Get(ctx, id); err != nil || !j.State.Final() {
			t.Errorf("%s: got %s, %v, as the worker is told", end.reason, j.State, err)
		}
	}
}

// TestGiveBackSession: a session whose sandbox its worker could not start is another's to hold, with what waits for it; one that has begun stays.
func TestGiveBackSession(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	waits := r.api.execute(t, x.ID, "1")
	giveBack := func(worker string, want bool) {
		t.Helper()
		if got, err := r.worker.GiveBackSession(ctx, x, worker); err != nil || got != want {
			t.Fatalf("given back by %s: got %v, %v, want %v", worker, got, err, want)
		}
	}
	giveBack("w1", false) // nobody holds it
	r.worker.mustClaim(t, x.ID)
	for _, key := range r.admin.Keys(ctx, "asynq:{sessions:*").Val() {
		r.admin.Del(ctx, key)
	}
	giveBack("w2", false)
	giveBack("w1", true)
	giveBack("w1", false)
	if got := r.api.mustSession(t, x.ID); got.State != job.SessionQueued || got.Worker != "" {
		t.Errorf("got %+v, want it queued, and nobody's", got)
	}
	if n := r.admin.HLen(ctx, heldKey("acme")).Val(); n != 0 {
		t.Errorf("%d sessions are held, want none", n)
	}
	if got := tasks(t, r.api, queue.Sessions("python", "")); !slices.Equal(got, []string{x.ID + ".1"}) {
		t.Errorf("got tasks %v, want the session's", got)
	}
	if _, err := r.worker.ClaimSession(ctx, x.ID, "w2"); err != nil {
		t.Fatal(err)
	}
	if j, err := r.worker.TakeTurn(ctx, x.ID, "w2", "", nil, Rest{Slot: true}); err != nil || j.ID != waits {
		t.Fatalf("got %+v, %v, want %s", j, err, waits)
	}
	giveBack("w2", false) // it has begun
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	giveBack("w2", false)
	if got := r.api.mustSession(t, x.ID); got.State != job.SessionEnded {
		t.Errorf("got %+v, want it ended", got)
	}
}
