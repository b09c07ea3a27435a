package record

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// budgetEvents are those of budgets that wait for the deliverer.
func (s *Store) budgetEvents(t *testing.T) []string {
	t.Helper()
	ids, err := s.rdb.ZRange(t.Context(), outboxKey("default"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, id := range ids {
		d, err := s.GetDelivery(t.Context(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := ParseBudget("default", d.Budget); ok {
			events = append(events, fmt.Sprintf("%s %s of %s in %s", d.Event, b.Spent.Amount, b.Budget.Amount, b.Month))
		}
	}
	slices.Sort(events)
	return events
}

// TestBudget: what jobs cost counts against the month's budget, each threshold is told of once, however many jobs end at once, and
// a budget that is spent refuses all that would cost.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	at := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return at }
	tenant, err := s.CreateTenant(t.Context(), "default", job.Terms{Budget: job.Budget{Nano: 100_000, WarnPercent: 50}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateEndpoint(t.Context(), job.NewEndpointID("default"), EndpointSettings{EndpointSettings: job.EndpointSettings{URL: "https://example.com/e"}.Filled()}); err != nil {
		t.Fatal(err)
	}
	submit := func() (string, error) {
		id := job.NewID("default")
		return id, s.Create(t.Context(), id, job.Spec{Runtime: "python", Source: "1"}, "")
	}
	finish := func(id string, nano int64) {
		j, err := s.Start(t.Context(), id, 1, "w")
		if err == nil {
			err = s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte(`{}`), Metered: &Metered{Nano: nano}})
		}
		if err != nil {
			t.Error(err)
		}
	}
	end := func(nano int64) {
		id, err := submit()
		if err != nil {
			t.Error(err)
			return
		}
		finish(id, nano)
	}
	var ends sync.WaitGroup
	for range 6 { // each makes it cross, if none has
		ends.Go(func() { end(10_000) })
	}
	ends.Wait()
	if got, want := s.budgetEvents(t), []string{"budget.warning 0.000050000 of 0.000100000 in 2026-11"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	late, err := submit() // it is accepted before
	if err != nil {
		t.Fatal(err)
	}
	end(45_000)
	run, err := s.OpenRun(t.Context(), "default", NewRun{Pipeline: []byte(`{"steps":{}}`), Params: []byte(`{}`), Deadline: at.Add(time.Hour), Key: "k"})
	if job.CodeOf(err) != job.CodeBudgetExceeded {
		t.Errorf("begin run: got %+v, %v", run, err)
	}
	for name, try := range map[string]func() error{
		"job":     func() error { _, err := submit(); return err },
		"session": func() error { _, err := s.OpenSession(t.Context(), "default", pythonSession, nil); return err },
	} {
		var said *job.Error
		if err := try(); !errors.As(err, &said) || said.Code != job.CodeBudgetExceeded ||
			said.Message != "the tenant's budget of 0.000100000 for 2026-11 is spent (0.000105000 so far): jobs are accepted again from 2026-12-01 (UTC) on, or when the operator raises it" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	finish(late, 7_000)
	want := []string{"budget.exceeded 0.000105000 of 0.000100000 in 2026-11", "budget.warning 0.000050000 of 0.000100000 in 2026-11"}
	if got := s.budgetEvents(t); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	u, err := s.Usage(t.Context(), "default", at.Truncate(day), at.Truncate(day))
	if err != nil || u.Budget == nil || u.Budget.Spent.Nano != 112_000 || u.Total.Cost.Nano != 112_000 {
		t.Errorf("got %+v, %v", u, err)
	}

	// More of it is another budget, with a warning of its own, and the next month begins at nothing.
	if _, err := s.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{Budget: job.Budget{Nano: 200_000}}); err != nil {
		t.Fatal(err)
	}
	s.tenants.forget("default")
	end(50_000)
	want = append(want, "budget.warning 0.000162000 of 0.000200000 in 2026-11")
	slices.Sort(want)
	if got := s.budgetEvents(t); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	at = at.Add(time.Hour)
	end(150_000)
	if got := s.budgetEvents(t); !slices.Equal(got, want) {
		t.Errorf("in the next month: got %q, want %q", got, want)
	}
	if u, err = s.Usage(t.Context(), "default", at, at); err != nil || u.Budget.Month != "2026-12" || u.Budget.Spent.Nano != 150_000 {
		t.Errorf("got %+v, %v", u.Budget, err)
	}
	accepted := make([]string, 6)
	for i := range accepted {
		if accepted[i], err = submit(); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range accepted {
		ends.Go(func() { finish(id, 40_000) })
	}
	ends.Wait()
	want = append(want, "budget.exceeded 0.000230000 of 0.000200000 in 2026-12", "budget.warning 0.000190000 of 0.000200000 in 2026-12")
	slices.Sort(want)
	if got := s.budgetEvents(t); !slices.Equal(got, want) {
		t.Errorf("six at once: got %q, want %q", got, want)
	}
}

// TestBudgetLowered: a budget that is spent as it is set is told of at once, though no job ends any more. What a worker has spoiled of the counts stops no job.
func TestBudgetLowered(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	tenant, err := s.CreateTenant(t.Context(), "default", job.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateEndpoint(t.Context(), job.NewEndpointID("default"), EndpointSettings{EndpointSettings: job.EndpointSettings{URL: "https://example.com/e"}.Filled()}); err != nil {
		t.Fatal(err)
	}
	now := s.now()
	if err := s.rdb.HSet(t.Context(), monthKey("default", now), "nano", 90).Err(); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		nano int64
		want int // events, since the first
	}{{200, 0}, {100, 1}, {80, 3}, {80, 3}} {
		if tenant, err = s.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{Budget: job.Budget{Nano: c.nano}}); err != nil {
			t.Fatal(err)
		}
		if got := s.budgetEvents(t); len(got) != c.want {
			t.Errorf("%d: a budget of %d: got %q, want %d events", i, c.nano, got, c.want)
		}
	}
	for _, spoil := range []func() error{
		func() error { return s.rdb.HSet(t.Context(), monthKey("default", now), "nano", "x").Err() },
		func() error { return s.rdb.Set(t.Context(), monthKey("default", now), "x", 0).Err() },
		func() error { return s.rdb.Set(t.Context(), usageKey("default", now), "x", 0).Err() },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t.Context(), job.NewID("default"), job.Spec{Runtime: "python", Source: "1"}, ""); err != nil {
			t.Errorf("submit: %v", err)
		}
		if u, err := s.Usage(t.Context(), "default", now, now); err != nil || u.Budget == nil || u.Budget.Spent.Nano != 0 {
			t.Errorf("usage: got %+v, %v", u, err)
		}
		if tenant, err = s.SetTerms(t.Context(), "default", tenant.Revision, tenant.Terms); err != nil {
			t.Errorf("set terms: %v", err)
		}
	}
}

// TestParseBudget: a worker that was taken over may write what an event is about, and speaks for no other tenant by that.
func TestParseBudget(t *testing.T) {
	t.Parallel()
	if b, ok := ParseBudget("acme", "acme 2026-11 5 7"); !ok || b.Month != "2026-11" || b.Budget.Nano != 5 || b.Spent.Nano != 7 {
		t.Errorf("got %+v, %t", b, ok)
	}
	for _, s := range []string{"", "acme", "other 2026-11 5 7", "acme 2026-13 5 7", "acme 2026-11 -5 7", "acme 2026-11 5 x", "acme 2026-11 5 7 8", "acme 2026-11 5 99999999999999999999"} {
		if b, ok := ParseBudget("acme", s); ok {
			t.Errorf("%q: got %+v", s, b)
		}
	}
}
