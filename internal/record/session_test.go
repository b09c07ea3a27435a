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
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

var pythonSession = job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 1000}}

// openSession opens a session of the tenant.
func (s *Store) openSession(t *testing.T, tenant string) Session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), tenant, pythonSession, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (s *Store) mustSession(t *testing.T, id string) Session {
	t.Helper()
	x, err := s.GetSession(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (s *Store) mustClaim(t *testing.T, id string) {
	t.Helper()
	if _, err := s.ClaimSession(t.Context(), id, "w1"); err != nil {
		t.Fatal(err)
	}
}

// execute adds an execution to the session.
func (s *Store) execute(t *testing.T, session, code string) (id string) {
	t.Helper()
	tenant, _ := job.TenantOfSession(session)
	id = job.NewID(tenant)
	if err := s.AddTurn(t.Context(), session, id, pythonSession.Spec(job.SessionExecution{Code: code}), NewTurn{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// take is TakeTurn, which is to give this execution.
func (s *Store) take(t *testing.T, session, done, want string) Record {
	t.Helper()
	j, err := s.TakeTurn(t.Context(), session, "w1", done, nil, Rest{Slot: true})
	if err != nil || j.ID != want {
		t.Fatalf("got execution %q, %v, want %s", j.ID, err, want)
	}
	return j
}

// outcome is how an execution ended: its status, and the code of its error.
func (s *Store) outcome(t *testing.T, id string) string {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{job.CodeSessionLost, job.CodeSessionEnded} {
		if strings.Contains(string(j.Result), code) {
			return string(j.State) + " " + code
		}
	}
	return string(j.State)
}

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

// endTurn1 ends an execution as its worker does.
func (s *Store) endTurn1(t *testing.T, id string) {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err == nil {
		err = s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte(`{}`)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSessionBudget: a session whose executions have used what they may gives no more, and says so to whoever asks for more.
func TestSessionBudget(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]job.SessionBudget{"executions": {Executions: 2}, "cpu": {CPUMS: 100}, "the first of both": {Executions: 2, CPUMS: 10_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRoles(t)
			ctx := t.Context()
			settings := pythonSession
			settings.Budget = &budget
			x, err := r.api.OpenSession(ctx, "acme", settings, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.worker.mustClaim(t, x.ID)
			waits := []string{r.api.execute(t, x.ID, "1"), r.api.execute(t, x.ID, "2"), r.api.execute(t, x.ID, "3")}
			for _, id := range waits[:2] {
				j := r.worker.take(t, x.ID, "", id)
				if err := r.worker.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte(`{}`), Rested: true, Metered: &Metered{CPUMS: 50}}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the answer got lost
				if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", waits[1], nil, Rest{Slot: true}); !errors.Is(err, ErrSpent) {
					t.Fatalf("got %v, want %v", err, ErrSpent)
				}
			}
			err = r.api.AddTurn(ctx, x.ID, job.NewID("acme"), pythonSession.Spec(job.SessionExecution{Code: "4"}), NewTurn{})
			if !errors.Is(err, job.ErrSessionEnded) || !strings.Contains(err.Error(), "(budget)") {
				t.Errorf("got %v, want that its budget is spent", err)
			}
			if err := r.worker.EndSession(ctx, x.ID, "w1", job.SessionEnd{Reason: job.EndBudget}); err != nil {
				t.Fatal(err)
			}
			if got := r.api.outcome(t, waits[2]); got != "canceled session_ended" {
				t.Errorf("what waited is %s", got)
			}
			if got := r.api.mustSession(t, x.ID); got.CPUMS != 100 || got.Executions != 2 || got.EndReason != job.EndBudget {
				t.Errorf("got %+v", got)
			}
		})
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

// TestSessionQuotas: a tenant has so many sessions, and a session so many executions that wait; another tenant's don't count.
func TestSessionQuotas(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{Sessions: 1}}); err != nil {
		t.Fatal(err)
	}
	x := r.api.openSession(t, "acme")
	if _, err := r.api.OpenSession(ctx, "acme", pythonSession, nil); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a second session: got %v, want quota_exceeded", err)
	}
	for range job.DefaultSessions {
		r.api.openSession(t, "other")
	}
	if _, err := r.api.OpenSession(ctx, "other", pythonSession, nil); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("one more than the default: got %v, want quota_exceeded", err)
	}
	var waiting []string
	for range job.MaxWaitingTurns {
		waiting = append(waiting, r.api.execute(t, x.ID, "1"))
	}
	spec := pythonSession.Spec(job.SessionExecution{Code: "1"})
	if err := r.api.AddTurn(ctx, x.ID, job.NewID("acme"), spec, NewTurn{}); !errors.Is(err, job.ErrSessionBusy) {
		t.Errorf("one more execution than may wait: got %v, want ErrSessionBusy", err)
	}
	if status, err := r.api.Cancel(ctx, waiting[3], nil); err != nil || status != job.Canceled {
		t.Errorf("got %s, %v, want it canceled", status, err)
	}
	waiting = append(slices.Delete(waiting, 3, 4), r.api.execute(t, x.ID, "another in its place"))
	if err := r.api.AddTurn(ctx, x.ID, job.NewID("acme"), spec, NewTurn{}); !errors.Is(err, job.ErrSessionBusy) {
		t.Errorf("one more once one was canceled: got %v, want ErrSessionBusy", err)
	}
	if got := r.api.rdb.LRange(ctx, script.Key("acme", "turns:"+x.ID), 0, -1).Val(); !slices.Equal(got, waiting) {
		t.Errorf("got %v, want %v", got, waiting)
	}
	if err := r.api.AddTurn(ctx, x.ID, job.NewID("other"), spec, NewTurn{}); !errors.Is(err, job.ErrNoSession) {
		t.Errorf("another tenant's execution: got %v, want ErrNoSession", err)
	}
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	r.api.openSession(t, "acme")
	list, next, err := r.api.ListSessions(ctx, "acme", "", 1)
	if err != nil || len(list) != 1 || next == "" {
		t.Fatalf("got %v, %q, %v, want one and more", list, next, err)
	}
	rest, next, err := r.api.ListSessions(ctx, "acme", next, 2)
	if err != nil || len(rest) != 1 || next != "" || rest[0].ID == list[0].ID {
		t.Errorf("got %v, %q, %v, want the other one", rest, next, err)
	}
}

// TestSessionKeys: a key begins one session, and in it one execution, however often the same is asked for; something else under it is refused.
func TestSessionKeys(t *testing.T) {
	t.Parallel()
	r, ctx := openRoles(t), t.Context()
	settings := pythonSession
	settings.IdempotencyKey = "one ü" // whatever it has, Redis gets a hash
	x, err := r.api.OpenSession(ctx, "acme", settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.api.OpenSession(ctx, "acme", settings, nil)
	if err != nil || again.ID != x.ID || again.Settings.IdempotencyKey != "" {
		t.Errorf("the same again: got %+v, %v, want %s", again, err, x.ID)
	}
	if got := tasks(t, r.api, queue.Sessions("python", "")); !slices.Equal(got, []string{x.ID + ".1"}) {
		t.Errorf("got tasks %v, want one", got)
	}
	if other, err := r.api.OpenSession(ctx, "other", settings, nil); err != nil || other.ID == x.ID {
		t.Errorf("another tenant's: got %s, %v", other.ID, err)
	}
	longer := settings
	longer.TTLSeconds = 4000
	if _, err := r.api.OpenSession(ctx, "acme", longer, nil); !errors.Is(err, job.ErrConflict) {
		t.Errorf("other settings: got %v, want ErrConflict", err)
	}

	add := func(key, code string) (string, error) {
		id := job.ExecutionID(x.ID, key)
		return id, r.api.AddTurn(ctx, x.ID, id, pythonSession.Spec(job.SessionExecution{Code: code, IdempotencyKey: key}), NewTurn{})
	}
	first, err := add("a", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := add("a", "1"); !errors.Is(err, ErrExists) {
		t.Errorf("the same execution: got %v, want ErrExists", err)
	}
	if _, err := add("a", "2"); !errors.Is(err, job.ErrConflict) {
		t.Errorf("other code: got %v, want ErrConflict", err)
	}
	second, err := add("b", "1")
	if err != nil || second == first {
		t.Errorf("another key: got %s, %v", second, err)
	}
	if n := r.api.rdb.LLen(ctx, script.Key("acme", "turns:"+x.ID)).Val(); n != 2 {
		t.Errorf("%d executions wait, want 2", n)
	}
	if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	if _, err := add("a", "1"); !errors.Is(err, ErrExists) {
		t.Errorf("the same execution of a session that has ended: got %v, want ErrExists", err)
	}
	if again, err := r.api.OpenSession(ctx, "acme", settings, nil); err != nil || again.ID != x.ID || again.State != job.SessionEnded {
		t.Errorf("the same session once it has ended: got %+v, %v", again, err)
	}
	if err := r.api.rdb.Del(ctx, script.Key("acme", "session:"+x.ID)).Err(); err != nil { // it expires
		t.Fatal(err)
	}
	var gone *job.GoneError
	if _, err := r.api.OpenSession(ctx, "acme", settings, nil); !errors.As(err, &gone) || gone.ID != x.ID {
		t.Errorf("the same session once it is forgotten: got %v, want GoneError", err)
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
