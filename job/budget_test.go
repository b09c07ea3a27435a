package job

import (
	"errors"
	"testing"
	"time"
)

func TestBudgetTerms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget Budget
		warnAt int64
		field  string
	}{
		{Budget{}, 0, ""},
		{Budget{Nano: 1}, 1, ""},
		{Budget{Nano: 1_000_000_007}, 800_000_005, ""},
		{Budget{Nano: 100, WarnPercent: 100}, 100, ""},
		{Budget{Nano: maxBudget, WarnPercent: 99}, maxBudget/100*99 + maxBudget%100*99/100, ""},
		{Budget{Nano: -1}, 0, "terms.budget.nano"},
		{Budget{Nano: maxBudget + 1}, 0, "terms.budget.nano"},
		{Budget{Nano: 5, WarnPercent: 101}, 0, "terms.budget.warn_percent"},
		{Budget{Nano: 5, WarnPercent: -1}, 0, "terms.budget.warn_percent"},
	} {
		err := Terms{Budget: c.budget}.Check()
		var faults Invalid
		if errors.As(err, &faults) != (c.field != "") || c.field != "" && faults[0].Field != c.field {
			t.Errorf("%+v: got %v", c.budget, err)
		}
		if got := c.budget.WarnAt(); c.field == "" && got != c.warnAt {
			t.Errorf("%+v: warns at %d, want %d", c.budget, got, c.warnAt)
		}
	}
}

// TestUsageEvents: only days that are over, and always under the same id.
func TestUsageEvents(t *testing.T) {
	t.Parallel()
	u := UsageReport{Days: []DayUsage{{Day: "2026-11-21", UsageCounts: UsageCounts{Jobs: 3, Cost: NewCost(7)}}, {Day: "2026-11-22"}, {Day: "2026-11-23"}}}
	got := u.Events("https://gb.example.com/v1/usage", "acme", time.Date(2026, 11, 23, 0, 15, 0, 0, time.UTC))
	if len(got) != 2 || got[0].ID != "acme/2026-11-21" || got[1].ID != "acme/2026-11-22" || got[0].Data.Jobs != 3 || got[0].Subject != "acme" || got[1].Time.Format(time.RFC3339) != "2026-11-23T00:00:00Z" {
		t.Errorf("got %+v", got)
	}
}
