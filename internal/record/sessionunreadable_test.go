package record

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestSessionUnreadable: a session whose record can't be read is ended by the sweeper, with its executions, and so is one whose list has what
// is no job of its tenant.
func TestSessionUnreadable(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{}), t.Context()
	w := &Sweeper{Records: s, Log: s.log}
	x, y := s.openSession(t, "default"), s.openSession(t, "default")
	s.mustClaim(t, x.ID)
	runs, waits := s.execute(t, x.ID, "1"), s.execute(t, x.ID, "2")
	s.take(t, x.ID, "", runs)
	foreign := job.NewID("other")
	for _, err := range []error{
		s.rdb.HSet(ctx, sessionKey("default", x.ID), "settings", "{").Err(),
		s.rdb.RPush(ctx, turnsKey("default", y.ID), foreign).Err(),
		s.rdb.HSet(ctx, sessionKey("default", y.ID), "turn", foreign).Err(),
		s.rdb.HSet(ctx, jobKey("default", foreign), "state", "running").Err(),
		s.EndSession(ctx, y.ID, "", job.SessionEnd{Reason: job.EndDeleted}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{x.ID, y.ID} {
		if err := s.rdb.ZAdd(ctx, sessionWorkKey("default"), redis.Z{Score: 1, Member: id}).Err(); id == x.ID && err != nil {
			t.Fatal(err)
		}
	}
	_ = w.sweepSessions(ctx, "default") // it says what can't be read
	for id, want := range map[string]string{runs: "internal_error " + job.CodeSessionLost, waits: "canceled " + job.CodeSessionEnded} {
		if got := s.outcome(t, id); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n := s.rdb.ZCard(ctx, sessionWorkKey("default")).Val(); n != 0 {
		t.Errorf("%d sessions count against the quota still", n)
	}
}

// TestSessionWithUnreadableExecutions: executions whose records can't be read end with their session, and hold up no other.
func TestSessionWithUnreadableExecutions(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{}), t.Context()
	x := s.openSession(t, "default")
	s.mustClaim(t, x.ID)
	runs, waits, last := s.execute(t, x.ID, "1"), s.execute(t, x.ID, "2"), s.execute(t, x.ID, "3")
	s.take(t, x.ID, "", runs)
	for id, field := range map[string]string{runs: "spec", waits: "metadata"} {
		if err := s.rdb.HSet(ctx, jobKey("default", id), field, "{").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{runs, waits, last} {
		if state, err := s.StateOf(ctx, id); err != nil || state != job.Canceled {
			t.Errorf("got %s, %v, want it canceled", state, err)
		}
	}
	if n := s.rdb.ZCard(ctx, sessionWorkKey("default")).Val(); n != 0 {
		t.Errorf("%d sessions count against the quota still", n)
	}
}
