package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// TestJobsBesideSessions: a job that needs what sessions hold goes back, and none that needs less waits behind it.
func TestJobsBesideSessions(t *testing.T) {
	t.Parallel()
	const all, ofSession, tooMuch, fits = 1000, 500, 700, 400
	for name, c := range map[string]struct {
		idleMB int64         // of the session's, which may be paused
		wait   time.Duration // before the job that needs too much goes back
		then   func(session, job func())
		want   error
	}{
		"a session that is held":        {want: errHeld},
		"one whose pause is not enough": {idleMB: 199, want: errHeld},
		"one that may be paused":        {idleMB: ofSession, wait: pausePatience, want: errHeld},
		"one that is paused meanwhile":  {idleMB: ofSession, wait: pausePatience / 2, then: func(session, _ func()) { session() }},
		"one that stays, as a job ends": {idleMB: ofSession, wait: pausePatience, then: func(_, job func()) { job() }, want: errHeld},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := sessionWorker(t, all)
				w.sessions.pauser.after = time.Minute
				if c.idleMB > 0 {
					defer w.sessions.pauser.begin(c.idleMB, time.Now()).end()
				}
				session, err := w.reserveSession(t.Context(), ofSession)
				if err != nil {
					t.Fatal(err)
				}
				other, ok := w.tryAcquire(50)
				if !ok {
					t.Fatal("no memory for a small job")
				}
				began := time.Now()
				got := make(chan room, 1)
				go func() { release, err := w.acquire(t.Context(), tooMuch); got <- room{release, err} }()
				synctest.Wait()
				if c.then != nil {
					time.Sleep(c.wait - reachInterval)
					c.then(session, other)
				}
				r := <-got
				if took := time.Since(began); !errors.Is(r.err, c.want) || took > c.wait+reachInterval {
					t.Errorf("got %v after %v, want %v within %v", r.err, took, c.want, c.wait)
				}
				if r.err == nil {
					r.release()
				} else if _, err := w.acquire(t.Context(), fits); err != nil {
					t.Errorf("one that needs less: %v", err)
				}
			})
		})
	}
}

// TestJobsOutOfReach: a job that waits for another's end goes back once a session before it in line has got what it needs.
func TestJobsOutOfReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := sessionWorker(t, 1000)
		other, _ := w.tryAcquire(900)
		session, got := make(chan room, 1), make(chan room, 1)
		go func() { release, err := w.reserveSession(t.Context(), 500); session <- room{release, err} }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { release, err := w.acquire(ctx, 700); got <- room{release, err} }()
		synctest.Wait()
		time.Sleep(time.Minute)
		select {
		case r := <-got:
			t.Fatalf("it has not waited for a job's end: %v", r.err)
		default:
		}
		other()
		if r := <-session; r.err != nil {
			t.Fatal(r.err)
		}
		if r := <-got; !errors.Is(r.err, errHeld) {
			t.Errorf("got %v, want errHeld", r.err)
		}
		cancel(nil)
	})
}

// TestJobsFirst: behind a job that was held off for long, no new session gets memory for a while.
func TestJobsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := sessionWorker(t, 1000)
		x := record.Session{ID: job.NewSessionID("default"), Created: time.Now()}
		for _, c := range []struct {
			age  time.Duration
			want error
		}{{time.Minute, nil}, {time.Hour, errNoRoom}} {
			cost, delay := w.cost(t.Context(), record.Record{Created: time.Now().Add(-c.age)}, errHeld)
			if cost != record.CostNothing || delay != heldDelay {
				t.Errorf("got %s and %v", cost, delay)
			}
			release, err := w.waitForRoom(t.Context(), x, 100)
			if !errors.Is(err, c.want) {
				t.Errorf("a session after a job that is %v old: got %v, want %v", c.age, err, c.want)
			}
			if err == nil {
				release()
			}
		}
		time.Sleep(mostPatience)
		if _, err := w.waitForRoom(t.Context(), x, 100); err != nil {
			t.Errorf("once it is over: %v", err)
		}
	})
}
