package record

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

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
	hold := func(int64) error { return nil }
	list, next, err := r.api.ListSessions(ctx, "acme", "", 1, hold)
	if err != nil || len(list) != 1 || next == "" {
		t.Fatalf("got %v, %q, %v, want one and more", list, next, err)
	}
	rest, next, err := r.api.ListSessions(ctx, "acme", next, 2, hold)
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
