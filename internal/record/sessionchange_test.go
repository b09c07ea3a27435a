package record

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// change is ChangeSession, which is to be done.
func (s *Store) change(t *testing.T, id string, c job.SessionChange) Session {
	t.Helper()
	x, err := s.ChangeSession(t.Context(), id, c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// at sets the Store's clock.
func (s *Store) at(now time.Time) { s.now = func() time.Time { return now } }

// TestChangeSession: what the change names changes, the rest stays, and the worker is told and reads the same.
func TestChangeSession(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.api.at(x.Created.Add(10 * time.Minute))
	r.worker.now = r.api.now
	queued := r.api.change(t, x.ID, job.SessionChange{TTLSeconds: new(int64(4000))}) // before anybody holds it
	if want := x.Created.Add(4600 * time.Second); !queued.Expires.Equal(want) || queued.Settings.TTLSeconds != 4600 || queued.Settings.IdleSeconds != job.DefaultIdleSeconds || queued.State != job.SessionQueued {
		t.Errorf("got %+v, want that it lives until %s, and the rest as it was", queued, want)
	}
	listener := r.worker.ListenTurns(ctx, "w1")
	defer listener.Close()
	r.worker.mustClaim(t, x.ID)
	if got, err := r.worker.SessionTime(ctx, x.ID, "w1", "", 0); err != nil || got != (SessionTime{Expires: queued.Expires, Idle: job.DefaultIdleSeconds * time.Second}) {
		t.Errorf("its worker reads %+v, %v", got, err)
	}
	if _, err := r.worker.SessionTime(ctx, x.ID, "w2", "", time.Hour); !errors.Is(err, job.ErrSessionEnded) {
		t.Errorf("another worker: got %v, want ErrSessionEnded", err)
	}
	listener.Subscribed(t, r.api.rdb, turnChannel+"w1")
	woken, stop := listener.Wait(x.ID)
	defer stop()
	idle := r.api.change(t, x.ID, job.SessionChange{IdleSeconds: new(int64(4600))})
	if !idle.Expires.Equal(queued.Expires) || idle.Settings.IdleSeconds != 4600 {
		t.Errorf("got %+v, want an idle time of 4600 s, and the rest as it was", idle)
	}
	select {
	case <-woken:
	case <-time.After(gbtest.AtOnce):
		t.Error("the worker was not told")
	}
	for _, metadata := range []map[string]string{{"a": strings.Repeat("long", 100)}, {}, {"b": strings.Repeat("c", 200)}} {
		if got := r.api.change(t, x.ID, job.SessionChange{Metadata: &metadata}); !maps.Equal(got.Settings.Metadata, metadata) || !got.Expires.Equal(queued.Expires) || got.Settings.IdleSeconds != 4600 {
			t.Errorf("got %+v, want metadata %v, and the rest as it was", got, metadata)
		}
	}
	if counted, charge := r.admin.Get(ctx, recordedKey("acme")).Val(), r.admin.HGet(ctx, sessionKey("acme", x.ID), "charge").Val(); counted != charge || charge == "" {
		t.Errorf("the tenant has %s bytes recorded, of which its one session is charged %s", counted, charge)
	}
	if got := r.api.change(t, x.ID, job.SessionChange{}); got.Settings.IdleSeconds != 4600 || !got.Expires.Equal(queued.Expires) {
		t.Errorf("a change of nothing: got %+v", got)
	}
	if got := r.api.mustSession(t, x.ID); got.Settings.IdleSeconds != 4600 || got.Settings.Runtime != "python" || got.Settings.Limits != pythonSession.Limits {
		t.Errorf("got %+v", got)
	}
	// What it was charged is given back with its record.
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	r.admin.Del(ctx, sessionKey("acme", x.ID))
	w, _ := sweepingOver(r.api)
	w.forward(8 * 24 * time.Hour)
	w.pass(ctx, garbagePass, w.sweepGarbage)
	if n := r.admin.Exists(ctx, recordedKey("acme")).Val(); n != 0 {
		t.Errorf("the tenant still has %v recorded, want nothing", r.admin.Get(ctx, recordedKey("acme")).Val())
	}
}

// TestChangeSessionBounds: a session lives 90 minutes from its begin at most, and is idle for no longer than it lives; what is refused changes nothing.
func TestChangeSessionBounds(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.api.at(x.Created.Add(30 * time.Minute))
	refused := func(c job.SessionChange, field string, value int64, allowed string) {
		t.Helper()
		was := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val()
		_, err := r.api.ChangeSession(ctx, x.ID, c)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != field || invalid[0].Value != value || invalid[0].Allowed != allowed {
			t.Errorf("got %v, want %s %d refused, and that %s is allowed", err, field, value, allowed)
		}
		if is := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val(); !maps.Equal(is, was) {
			t.Errorf("it was refused, and changed %v to %v", was, is)
		}
	}
	refused(job.SessionChange{TTLSeconds: new(int64(3601)), IdleSeconds: new(int64(5)), Metadata: &map[string]string{"a": "b"}}, "ttl_seconds", 3601, "up to 3600, from now")
	if got := r.api.change(t, x.ID, job.SessionChange{TTLSeconds: new(int64(3600))}); !got.Expires.Equal(x.Created.Add(90*time.Minute)) || got.Settings.TTLSeconds != job.MaxTTLSeconds {
		t.Errorf("got %+v, want it to live for 90 minutes", got)
	}
	r.api.at(x.Created.Add(90*time.Minute - 1500*time.Millisecond)) // however often it is asked for
	refused(job.SessionChange{TTLSeconds: new(int64(2))}, "ttl_seconds", 2, "up to 1, from now")
	r.api.at(x.Created.Add(time.Minute))
	refused(job.SessionChange{IdleSeconds: new(int64(job.MaxTTLSeconds + 1))}, "idle_seconds", job.MaxTTLSeconds+1, "1 to 5400, the ttl_seconds")
	refused(job.SessionChange{TTLSeconds: new(int64(100)), IdleSeconds: new(int64(161))}, "idle_seconds", 161, "1 to 160, the ttl_seconds")
	// A shorter life takes the idle time with it, and a longer one doesn't bring it back.
	for _, ttl := range []int64{100, 200} {
		if got := r.api.change(t, x.ID, job.SessionChange{TTLSeconds: &ttl}); got.Settings.TTLSeconds != 60+ttl || got.Settings.IdleSeconds != 160 {
			t.Errorf("got %+v, want an idle time of 160 s", got)
		}
	}
}

// TestChangeSessionRefused: a session that has ended, that its worker has seen to be over, or whose time has passed gets no more time, nor anything to execute; one that isn't the tenant's is none.
func TestChangeSessionRefused(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	more := job.SessionChange{TTLSeconds: new(int64(60)), IdleSeconds: new(int64(60)), Metadata: &map[string]string{"a": "b"}}
	opened := func() Session {
		x := r.api.openSession(t, "acme")
		r.worker.mustClaim(t, x.ID)
		return x
	}
	ended, idle, ttl, late := opened(), opened(), opened(), opened()
	if err := r.api.EndSession(ctx, ended.ID, "", job.SessionEnd{Reason: job.EndDeleted, Message: "so"}); err != nil {
		t.Fatal(err)
	}
	waits := r.api.execute(t, idle.ID, "1")
	if got, err := r.worker.SessionTime(ctx, idle.ID, "w1", "", time.Hour); err != nil || got.Over != "" {
		t.Errorf("where an execution waits: got %+v, %v, want it not idle", got, err)
	}
	r.worker.take(t, idle.ID, "", waits)
	r.worker.endTurn1(t, waits)
	for range 2 { // the answer got lost
		if got, err := r.worker.SessionTime(ctx, idle.ID, "w1", "", job.DefaultIdleSeconds*time.Second); err != nil || got.Over != job.EndIdle {
			t.Errorf("got %+v, %v, want it over as it was idle", got, err)
		}
	}
	r.worker.at(ttl.Expires)
	if got, err := r.worker.SessionTime(ctx, ttl.ID, "w1", "", 0); err != nil || got.Over != job.EndTTL {
		t.Errorf("got %+v, %v, want it over as its time is", got, err)
	}
	for x, reason := range map[*Session]string{&ended: job.EndDeleted, &idle: job.EndIdle, &ttl: job.EndTTL, &late: job.EndTTL} {
		if x == &late { // and nobody has seen to it
			r.api.at(late.Expires)
		} else {
			r.api.now = time.Now
		}
		was := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val()
		if _, err := r.api.ChangeSession(ctx, x.ID, more); !errors.Is(err, job.ErrSessionEnded) || job.CodeOf(err) != job.CodeSessionEnded || !strings.Contains(err.Error(), "("+reason+")") {
			t.Errorf("%s: got %v, want session_ended and that reason", reason, err)
		}
		if is := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val(); !maps.Equal(is, was) {
			t.Errorf("%s: it was refused, and changed %v to %v", reason, was, is)
		}
		if err := r.api.AddTurn(ctx, x.ID, job.NewID("acme"), pythonSession.Spec(job.SessionExecution{Code: "1"}), NewTurn{}); x != &late && !errors.Is(err, job.ErrSessionEnded) {
			t.Errorf("%s: execute: got %v, want ErrSessionEnded", reason, err)
		}
	}
	r.api.now = time.Now
	x := opened()
	was := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val()
	for _, id := range []string{"other" + strings.TrimPrefix(x.ID, "acme"), x.ID + "a", "x", ""} {
		if _, err := r.api.ChangeSession(ctx, id, more); !errors.Is(err, job.ErrNoSession) {
			t.Errorf("%q: got %v, want ErrNoSession", id, err)
		}
		if _, err := r.worker.SessionTime(ctx, id, "w1", "", time.Hour); !errors.Is(err, job.ErrNoSession) {
			t.Errorf("%q: its time: got %v, want ErrNoSession", id, err)
		}
	}
	if is := r.admin.HGetAll(ctx, sessionKey("acme", x.ID)).Val(); !maps.Equal(is, was) {
		t.Errorf("another tenant has changed %v to %v", was, is)
	}
}

// TestSweepSessionsGivenMoreTime: the sweeper ends no session at the time that it had before, nor one that was given more since it was read.
func TestSweepSessionsGivenMoreTime(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	w, _ := sweepingOver(r.api)
	queued, held := r.api.openSession(t, "acme"), r.api.openSession(t, "acme")
	r.worker.mustClaim(t, held.ID)
	for _, x := range []*Session{&queued, &held} {
		*x = r.api.change(t, x.ID, job.SessionChange{TTLSeconds: new(int64(5000))})
	}
	sweep := func(d time.Duration) {
		t.Helper()
		w.forward(d)
		if err := w.sweepSessions(ctx, "acme"); err != nil {
			t.Fatal(err)
		}
	}
	sweep(time.Hour + expiredGrace + time.Second)
	for _, x := range []Session{queued, held} {
		if got := r.api.mustSession(t, x.ID); got.State == job.SessionEnded {
			t.Errorf("got %+v, want it to live on", got)
		}
		if err := w.Records.endSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndTTL}, true); !errors.Is(err, errLivesOn) { // as it was read before
			t.Errorf("got %v, want errLivesOn", err)
		}
		if err := w.endOver(ctx, x, job.SessionEnd{Reason: job.EndTTL}, true); err != nil {
			t.Errorf("got %v, want that it is none of the sweeper's", err)
		}
		if got := r.api.mustSession(t, x.ID); got.State == job.SessionEnded {
			t.Errorf("got %+v, want it to live on", got)
		}
	}
	sweep(5001*time.Second + expiredGrace + recheckDelay)
	for x, reason := range map[*Session]string{&queued: job.EndFailed, &held: job.EndTTL} {
		if got := r.api.mustSession(t, x.ID); got.State != job.SessionEnded || got.EndReason != reason {
			t.Errorf("got %+v, want it ended: %s", got, reason)
		}
	}
}

// TestChangeSessionOrEnd: where a session is given more time in the moment in which it is over, either all see it live on, or nobody can change it any more.
// The hosts' clocks differ: the api's doesn't say yet that it is over.
func TestChangeSessionOrEnd(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	sweeper := r.open(t, r.server.API())
	over := func(x Session, idle time.Duration) (bool, error) {
		got, err := r.worker.SessionTime(ctx, x.ID, "w1", "", idle)
		return got.Over != "", err
	}
	const rounds, racers = 12, 12
	for name, race := range map[string]struct {
		change job.SessionChange
		end    func(Session) (ended bool, err error)
	}{
		"worker, ttl":  {job.SessionChange{TTLSeconds: new(int64(1500))}, func(x Session) (bool, error) { return over(x, 0) }},
		"worker, idle": {job.SessionChange{IdleSeconds: new(int64(700))}, func(x Session) (bool, error) { return over(x, job.DefaultIdleSeconds*time.Second) }},
		"sweeper": {job.SessionChange{TTLSeconds: new(int64(1500))}, func(x Session) (bool, error) {
			err := sweeper.endSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndTTL}, true)
			if errors.Is(err, errLivesOn) {
				return false, nil
			}
			if errors.Is(err, job.ErrSessionEnded) {
				err = nil
			}
			return true, err
		}},
	} {
		outcomes := map[string]int{}
		for round := range rounds {
			r.api.now, r.worker.now, sweeper.now = time.Now, time.Now, time.Now
			x := r.api.openSession(t, fmt.Sprintf("%s%d", strings.Fields(name)[0][:1]+name[len(name)-1:], round))
			r.worker.mustClaim(t, x.ID)
			r.api.at(x.Expires.Add(-time.Millisecond))
			if name == "worker, idle" {
				r.worker.now = r.api.now
			} else {
				r.worker.at(x.Expires.Add(time.Millisecond))
			}
			sweeper.at(x.Expires.Add(time.Millisecond))
			var changed, refused, ended, lives atomic.Int32
			together(racers, func(i int) {
				if i%2 == 0 {
					switch _, err := r.api.ChangeSession(ctx, x.ID, race.change); {
					case err == nil:
						changed.Add(1)
					case errors.Is(err, job.ErrSessionEnded):
						refused.Add(1)
					default:
						t.Errorf("%s: change: %v", name, err)
					}
					return
				}
				if round%2 == 1 { // as a change reads the tenant's terms first: so each of the two is the first one now and then
					for range i / 2 {
						if _, err := r.worker.GetSession(ctx, x.ID); err != nil {
							t.Error(err)
						}
					}
				}
				switch is, err := race.end(x); {
				case err != nil:
					t.Errorf("%s: end: %v", name, err)
				case is:
					ended.Add(1)
				default:
					lives.Add(1)
				}
			})
			got := [4]int32{changed.Load(), refused.Load(), ended.Load(), lives.Load()}
			switch _, err := r.api.ChangeSession(ctx, x.ID, race.change); {
			case got == [4]int32{racers / 2, 0, 0, racers / 2} && err == nil:
				outcomes["lives"]++
			case got == [4]int32{0, racers / 2, racers / 2, 0} && errors.Is(err, job.ErrSessionEnded):
				outcomes["ended"]++
			default:
				t.Errorf("%s: %d changes were made and %d refused, %d saw it over and %d live on, and afterwards a change got %v: want one outcome", name, got[0], got[1], got[2], got[3], err)
			}
		}
		t.Logf("%s: %v", name, outcomes)
	}
}

// TestChangeSessionAsItIsDeleted: an end that somebody asks for is final, whatever changes come with it.
func TestChangeSessionAsItIsDeleted(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	more := job.SessionChange{TTLSeconds: new(int64(5000)), Metadata: &map[string]string{"a": "b"}}
	for range 12 {
		x := r.api.openSession(t, "acme")
		r.worker.mustClaim(t, x.ID)
		var deleted atomic.Int32
		together(12, func(i int) {
			var err error
			if i%3 > 0 {
				if _, err = r.api.ChangeSession(ctx, x.ID, more); errors.Is(err, job.ErrSessionEnded) {
					err = nil
				}
			} else if err = r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err == nil {
				deleted.Add(1)
			} else if errors.Is(err, job.ErrSessionEnded) {
				err = nil
			}
			if err != nil {
				t.Error(err)
			}
		})
		got := r.api.mustSession(t, x.ID)
		if deleted.Load() != 1 || got.State != job.SessionEnded || got.EndReason != job.EndDeleted {
			t.Errorf("%d have ended it, got %+v, want it ended once", deleted.Load(), got)
		}
		if _, err := r.api.ChangeSession(ctx, x.ID, more); !errors.Is(err, job.ErrSessionEnded) {
			t.Errorf("got %v, want ErrSessionEnded", err)
		}
	}
}

// together calls f so many times at once.
func together(n int, f func(i int)) {
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	all.Wait()
}

// TestSessionFromBefore: the record of a session that was opened before it could change has its idle time in its settings alone.
func TestSessionFromBefore(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	settings := pythonSession
	settings.IdleSeconds = 300
	var sessions []Session
	for range 4 {
		x, err := r.api.OpenSession(ctx, "acme", settings, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.worker.mustClaim(t, x.ID)
		if n, err := r.admin.HDel(ctx, sessionKey("acme", x.ID), "idle").Result(); err != nil || n != 1 {
			t.Fatalf("got %d, %v, want the field there", n, err)
		}
		sessions = append(sessions, r.api.mustSession(t, x.ID))
	}
	read, over, longer, shorter := sessions[0], sessions[1], sessions[2], sessions[3]
	if got, err := r.worker.SessionTime(ctx, read.ID, "w1", "", 299*time.Second); err != nil || got != (SessionTime{Expires: read.Expires, Idle: 300 * time.Second}) || read.Settings.IdleSeconds != 300 {
		t.Errorf("got %+v, %v, want an idle time of 300 s", got, err)
	}
	if got, err := r.worker.SessionTime(ctx, over.ID, "w1", "", 300*time.Second); err != nil || got.Over != job.EndIdle {
		t.Errorf("got %+v, %v, want it over", got, err)
	}
	if got := r.api.change(t, longer.ID, job.SessionChange{TTLSeconds: new(int64(5000))}); got.Settings.IdleSeconds != 300 {
		t.Errorf("got %+v, want an idle time of 300 s", got)
	}
	r.api.at(shorter.Created)
	if got := r.api.change(t, shorter.ID, job.SessionChange{TTLSeconds: new(int64(200))}); got.Settings.IdleSeconds != 200 {
		t.Errorf("got %+v, want an idle time of 200 s", got)
	}
	if got := r.api.change(t, shorter.ID, job.SessionChange{IdleSeconds: new(int64(100))}); got.Settings.IdleSeconds != 100 {
		t.Errorf("got %+v, want an idle time of 100 s", got)
	}
}
