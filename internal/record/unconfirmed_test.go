package record

import (
	"errors"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// missReplicas has the store want a replica, which its Redis has not.
func (s *Store) missReplicas() {
	s.replicas = 1
	s.lasting = redisconn.Replicated(s.rdb, s.replicas)
}

// What is to last, and what a second try finds, is an error where no replica has it.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 4), t.Context()
	for _, name := range []string{"default", "stopped"} {
		if _, err := s.CreateTenant(ctx, name, job.Terms{}); err != nil {
			t.Fatal(err)
		}
	}
	keyed := NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "python"}, Key: "k", RequestHash: HashRequest([]byte("this"))}
	if made, err := s.CreateMany(ctx, "default", []NewJob{keyed}); err != nil || made[0].Err != nil {
		t.Fatal(made, err)
	}
	x := s.openSession(t, "default")
	turn := job.ExecutionID(x.ID, "k")
	if err := s.AddTurn(ctx, x.ID, turn, pythonSession.Spec(job.SessionExecution{Code: "1", IdempotencyKey: "k"}), NewTurn{Asked: []byte("asked")}); err != nil {
		t.Fatal(err)
	}
	_, token, err := s.AddToken(ctx, "default", job.Token{})
	if err != nil {
		t.Fatal(err)
	}
	batch, run := s.newBatch(t, 2), s.newRun(t)
	s.missReplicas()
	for what, do := range map[string]func() error{
		"a job by its key":        func() error { _, err := s.FindByKey(ctx, "default", "k", keyed.RequestHash); return err },
		"an execution by its key": func() error { return s.FindTurn(ctx, turn, []byte("asked")) },
		"a batch":                 func() error { _, err := s.CancelBatch(ctx, batch); return err },
		"a run":                   func() error { return s.CancelRun(ctx, run.ID, RunCanceled) },
		"a run's jobs":            func() error { return s.CancelRunJobs(ctx, run, nil) },
		"a tenant":                func() error { _, err := s.StopTenant(ctx, "stopped"); return err },
		"a token": func() error {
			if err := s.RevokeToken(ctx, "default", token.ID); !errors.Is(err, redisconn.ErrUnconfirmed) {
				return err
			}
			return s.RevokeToken(ctx, "default", token.ID)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if err := do(); !errors.Is(err, redisconn.ErrUnconfirmed) {
				t.Errorf("got %v, want ErrUnconfirmed", err)
			}
		})
	}
}

// A second try to end a job is told that it has ended, so what the end made due gets its task at the first.
func TestUnconfirmedEndIsFollowedUp(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 1), t.Context()
	first := s.mustStart(t, s.mustCreate(t, "default", job.Normal), 1)
	for range 3 * cancelGroup { // most of them in the backlog
		s.mustCreate(t, "default", job.Normal)
	}
	before := s.opened(t, "default")
	s.missReplicas()
	e := Ending{Status: job.Succeeded, Result: []byte("{}")}
	if err := s.End(ctx, first, e); !errors.Is(err, redisconn.ErrUnconfirmed) {
		t.Fatalf("got %v, want ErrUnconfirmed", err)
	}
	released := 0
	for _, id := range s.opened(t, "default") {
		if slices.Contains(before, id) {
			continue
		}
		if released++; s.rdb.Exists(ctx, "asynq:{normal}:t:"+id+".1").Val() == 0 {
			t.Errorf("%s is released and has no task", id)
		}
	}
	if released == 0 {
		t.Error("none is released")
	}
	s.replicas, s.lasting = 0, s.rdb
	if err := s.End(ctx, first, e); !errors.Is(err, job.ErrEnded) {
		t.Errorf("the second try: got %v, want ErrEnded", err)
	}
}
