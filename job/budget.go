package job

import (
	"fmt"
	"time"
)

const (
	// DefaultBudgetWarnPercent is how much of a budget is spent when budget.warning is posted.
	DefaultBudgetWarnPercent = 80
	// maxBudget is what the comparison in Redis tells apart to the unit: 2^53, nine million of the currency.
	maxBudget = 1 << 53
)

// Events of budgets, each posted once a month to endpoints that want it.
const (
	EventBudgetWarning  = "budget.warning"
	EventBudgetExceeded = "budget.exceeded"
)

// Budget is what a tenant's jobs may cost in a calendar month of UTC, by the operator's prices. Its zero value is none.
type Budget struct {
	// Nano is in billionths of the operator's currency; 0 means no budget.
	Nano int64 `json:"nano,omitempty" doc:"In billionths of the operator's currency; 0 means none. From when it is spent no job is accepted until the month is over." minimum:"0" example:"25000000000"`
	// WarnPercent of it, of which budget.warning tells; 0 means [DefaultBudgetWarnPercent].
	WarnPercent int64 `json:"warn_percent,omitempty" doc:"How much of it is spent when budget.warning is posted, percent; 0 means 80." minimum:"0" maximum:"100"`
}

func (b Budget) check(add addFunc) {
	if b.Nano < 0 || b.Nano > maxBudget {
		add("terms.budget.nano", b.Nano, "is out of range", fmt.Sprintf("0 (none) to %d", int64(maxBudget)))
	}
	if b.WarnPercent < 0 || b.WarnPercent > 100 {
		add("terms.budget.warn_percent", b.WarnPercent, "is out of range", fmt.Sprintf("0 (%d) to 100", DefaultBudgetWarnPercent))
	}
}

// WarnAt is what is spent when budget.warning is posted, billionths: at least 1 where there is a budget, 0 where there is none.
func (b Budget) WarnAt() int64 {
	percent := b.WarnPercent
	if percent == 0 {
		percent = DefaultBudgetWarnPercent
	}
	if b.Nano == 0 {
		return 0
	}
	return max(b.Nano/100*percent+b.Nano%100*percent/100, 1)
}

// BudgetState is how far a budget is spent.
type BudgetState struct {
	Month  string `json:"month" doc:"Of UTC." example:"2026-11"`
	Budget Cost   `json:"budget"`
	// Spent may pass the budget by what the jobs cost that were accepted before.
	Spent Cost `json:"spent" doc:"What the jobs cost that have ended in the month. Jobs that were accepted before the budget was spent can take it beyond."`
}

// MonthOf is the month of UTC as budgets name it.
func MonthOf(at time.Time) string { return at.UTC().Format("2006-01") }

// ErrBudget is answered to a tenant that has spent so many billionths, and so its budget.
func ErrBudget(b Budget, spent int64, now time.Time) *Error {
	now = now.UTC()
	next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	return &Error{CodeBudgetExceeded, fmt.Sprintf("the tenant's budget of %s for %s is spent (%s so far): jobs are accepted again from %s (UTC) on, or when the operator raises it", NewCost(b.Nano).Amount, MonthOf(now), NewCost(spent).Amount, next.Format(time.DateOnly))}
}
