package deliverer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// TestBudgetEvents: endpoints that want it are told of a budget that is spent, in a message that verifies and has the same id at each.
func TestBudgetEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := job.MonthOf(time.Now())
	if _, err := b.Client.CreateTenant(t.Context(), "default", job.Terms{Budget: job.Budget{Nano: 1_000_000}}); err != nil {
		t.Fatal(err)
	}
	in, other := newInbox(t, nil), newInbox(t, nil)
	all := b.endpoint(t, job.EndpointSettings{URL: in.URL, Events: []string{job.EventBudgetWarning, job.EventBudgetExceeded}})
	b.endpoint(t, job.EndpointSettings{URL: other.URL, Events: []string{job.EventBudgetExceeded}, Filter: &job.EndpointFilter{Statuses: []string{"failed"}}})
	defer b.run(t)()
	j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	r := b.Start(t, j.ID)
	if err := b.Records.End(t.Context(), r, record.Ending{Status: job.Succeeded, Result: []byte(`{}`), Metered: &record.Metered{Nano: 1_500_000}}); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "both are told of", func() bool { return len(in.got()) == 2 })
	type told struct {
		Type string
		Data job.BudgetState
	}
	got := map[string]told{}
	for _, m := range in.got() {
		if err := verify(t, m, all.Secret); err != nil {
			t.Error(err)
		}
		var is told
		if err := json.Unmarshal(m.body, &is); err != nil {
			t.Fatal(err)
		}
		got[is.Type] = is
	}
	month := job.MonthOf(time.Now())
	if m := got[job.EventBudgetWarning].Data.Month; m == began {
		month = began // which ended meanwhile
	}
	state := job.BudgetState{Month: month, Budget: job.NewCost(1_000_000), Spent: job.NewCost(1_500_000)}
	want := map[string]told{job.EventBudgetWarning: {job.EventBudgetWarning, state}, job.EventBudgetExceeded: {job.EventBudgetExceeded, state}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(other.got()) != 0 {
		t.Error("a filter of statuses let a budget through")
	}
	if _, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"}); job.CodeOf(err) != job.CodeBudgetExceeded {
		t.Errorf("submit: got %v", err)
	}
}
