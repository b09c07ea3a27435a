package record

import (
	"errors"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// executeAt adds an execution in a context.
func (s *Store) executeAt(t *testing.T, session, name string, expect int) (id string, err error) {
	t.Helper()
	tenant, _ := job.TenantOfSession(session)
	id = job.NewID(tenant)
	n := NewTurn{Expect: expect}
	if name != job.MainContext {
		n.Place = Place{Context: name, Language: "python"}
	}
	return id, s.AddTurn(t.Context(), session, id, pythonSession.Spec(job.SessionExecution{Code: "1"}), n)
}

func (s *Store) mustExecuteAt(t *testing.T, session, name string, expect int) (id string) {
	t.Helper()
	id, err := s.executeAt(t, session, name, expect)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *Store) generation(t *testing.T, session, name string) int {
	t.Helper()
	c, ok := s.mustSession(t, session).Context(name)
	if !ok {
		return -1
	}
	return c.Generation
}

// TestRestartRaces: a restart counts once, wherever it comes between an execution's steps, and what is taken after it has the new generation. The api and the
// worker are the users of Redis that they are.
func TestRestartRaces(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	for _, name := range []string{job.MainContext, "a"} {
		x := r.api.openSession(t, "acme")
		restart := func() {
			t.Helper()
			if err := r.api.RestartContext(ctx, x.ID, name, ""); err != nil {
				t.Fatal(err)
			}
		}
		take := func(done string, lost map[string]int, want string, generation int) {
			t.Helper()
			for range 2 { // the answer got lost
				j, err := r.worker.TakeTurn(ctx, x.ID, "w1", done, lost, Rest{Slot: true})
				if err != nil || j.ID != want || j.Generation != generation {
					t.Fatalf("%s: got %s of generation %d, %v, want %s of %d", name, j.ID, j.Generation, err, want, generation)
				}
			}
		}
		first := r.api.mustExecuteAt(t, x.ID, name, 1)
		restart() // nothing was executed: there is nothing to restart
		r.worker.mustClaim(t, x.ID)
		take("", nil, first, 1)
		if got, err := r.worker.SessionTime(ctx, x.ID, "w1", name, 0); err != nil || got.Generation != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
		second := r.api.mustExecuteAt(t, x.ID, name, 1)
		for _, other := range []string{second, "acme-none"} { // that are not executed
			if err := r.api.RestartContext(ctx, x.ID, name, other); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.api.RestartContext(ctx, x.ID, "b", first); err != nil { // it is executed elsewhere
			t.Fatal(err)
		}
		if got := r.api.generation(t, x.ID, name); got != 1 {
			t.Errorf("%s: got generation %d, want 1: what was to be ended did not run", name, got)
		}
		if err := r.api.RestartContext(ctx, x.ID, name, first); err != nil { // while it runs: its loss is told, and is none more
			t.Fatal(err)
		}
		if got, err := r.worker.SessionTime(ctx, x.ID, "w1", name, 0); err != nil || got.Generation != 2 {
			t.Errorf("got %+v, %v", got, err)
		}
		r.worker.endTurn1(t, first)
		take(first, map[string]int{name: 1}, second, 2)
		if j, err := r.worker.Get(ctx, second); err != nil || j.Expect != 1 {
			t.Errorf("got %+v, %v, want that the worker knows what was expected", j, err)
		}
		third := r.api.mustExecuteAt(t, x.ID, name, 0)
		r.worker.endTurn1(t, second)
		restart() // after its end, of which the record doesn't know yet
		take(second, nil, third, 3)
		r.worker.endTurn1(t, third)
		for range 2 { // the answer got lost: a loss counts once
			if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", third, map[string]int{name: 3}, Rest{Slot: true}); !errors.Is(err, ErrNoTurn) {
				t.Fatal(err)
			}
		}
		if got := r.api.generation(t, x.ID, name); got != 4 {
			t.Errorf("%s: got generation %d, want 4", name, got)
		}
		var changed *job.GenerationError
		if _, err := r.api.executeAt(t, x.ID, name, 3); !errors.As(err, &changed) || changed.Generation != 4 || changed.Context != name {
			t.Errorf("got %v, want that it is 4", err)
		}
		r.api.mustExecuteAt(t, x.ID, name, 4)
		if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
			t.Fatal(err)
		}
		if err := r.api.RestartContext(ctx, x.ID, name, ""); !errors.Is(err, job.ErrSessionEnded) {
			t.Errorf("got %v, want that it has ended", err)
		}
	}
	if err := r.api.RestartContext(ctx, job.NewSessionID("acme"), "main", ""); !errors.Is(err, job.ErrNoSession) {
		t.Errorf("got %v, want none", err)
	}
}

// TestForgottenContext: what waited for a context that is deleted has none, also where another of its name is made, and no generation comes again.
func TestForgottenContext(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.worker.mustClaim(t, x.ID)
	before := r.api.recorded(t)
	if err := r.api.MakeContext(ctx, x.ID, "a", job.ContextSettings{Language: "python", Directory: "d"}); err != nil {
		t.Fatal(err)
	}
	if err := r.api.ForgetContext(ctx, x.ID, "a"); err != nil {
		t.Fatal(err)
	}
	if got := r.api.recorded(t); got != before {
		t.Errorf("a context that is gone counts %d bytes", got-before)
	}
	runs := r.api.mustExecuteAt(t, x.ID, "a", 0)
	waits := r.api.mustExecuteAt(t, x.ID, "a", 0)
	if j, err := r.worker.TakeTurn(ctx, x.ID, "w1", "", nil, Rest{Slot: true}); err != nil || j.ID != runs || j.Generation != 2 {
		t.Fatalf("got %+v, %v, want generation 2", j, err)
	}
	if err := r.api.ForgetContext(ctx, x.ID, "a"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.worker.SessionTime(ctx, x.ID, "w1", "a", 0); err != nil || got.Generation != 0 {
		t.Errorf("got %+v, %v, want none", got, err)
	}
	again := r.api.mustExecuteAt(t, x.ID, "a", 3)
	r.worker.endTurn1(t, runs)
	if j, err := r.worker.TakeTurn(ctx, x.ID, "w1", runs, map[string]int{"a": 2}, Rest{Slot: true}); err != nil || j.ID != waits || j.Generation != 0 {
		t.Fatalf("got %+v, %v, want that its context is no more", j, err)
	}
	r.worker.endTurn1(t, waits)
	if j, err := r.worker.TakeTurn(ctx, x.ID, "w1", waits, nil, Rest{Slot: true}); err != nil || j.ID != again || j.Generation != 3 {
		t.Fatalf("got %+v, %v, want generation 3", j, err)
	}
	if c, _ := r.api.mustSession(t, x.ID).Context("a"); c.Executions != 1 || c.Directory != "" {
		t.Errorf("got %+v", c)
	}
}

// TestContextsAtOnce: however many are asked for at once, there are no more than there may be.
func TestContextsAtOnce(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	x := r.api.openSession(t, "acme")
	var all sync.WaitGroup
	for n := range 2 * job.MaxContexts {
		all.Go(func() {
			name := string(rune('a' + n))
			err := r.api.MakeContext(t.Context(), x.ID, name, job.ContextSettings{Language: "python"})
			if n%2 == 0 {
				_, err = r.api.executeAt(t, x.ID, name, 0)
			}
			if err != nil && !errors.Is(err, job.ErrTooManyContexts) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := len(r.api.mustSession(t, x.ID).Contexts); got != job.MaxContexts {
		t.Errorf("got %d contexts, want %d", got, job.MaxContexts)
	}
	var invalid job.Invalid
	if err := r.api.MakeContext(t.Context(), x.ID, r.api.mustSession(t, x.ID).Contexts[1].Name, job.ContextSettings{Language: "sh"}); !errors.As(err, &invalid) || invalid[0].Field != "language" {
		t.Errorf("got %v, want that it has another language", err)
	}
}
