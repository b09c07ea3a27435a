package job

import (
	"fmt"
	"math/big"
	"time"
)

const (
	// UsageLife is how long the usage of a day is kept.
	UsageLife = 400 * 24 * time.Hour
	// MaxUsageDays is how many days one answer has at most.
	MaxUsageDays = 366
)

// Cost is an amount of the operator's currency, exactly.
type Cost struct {
	// Nano is in billionths of the currency.
	Nano int64 `json:"nano" doc:"In billionths of the operator's currency." example:"595"`
	// Amount is the same as a decimal text, for languages whose numbers lose digits.
	Amount string `json:"amount" doc:"The same as a decimal text: numbers beyond 2^53 lose digits in some languages." example:"0.000000595"`
}

const nanoDigits = 9

// NewCost returns the cost of so many billionths.
func NewCost(nano int64) Cost {
	whole, rest := new(big.Int).QuoRem(big.NewInt(nano), big.NewInt(1e9), new(big.Int))
	return Cost{nano, fmt.Sprintf("%d.%0*d", whole, nanoDigits, rest)} // no cost is below 0
}

// DayUsage is what a tenant's jobs used that ended on a day.
type DayUsage struct {
	Day string `json:"day" doc:"Of UTC, by the end of the jobs." example:"2026-11-23"`
	UsageCounts
}

// UsageCounts are sums over jobs that ran. Attempts that were lost, and jobs that never ran, are not among them.
type UsageCounts struct {
	Jobs int64 `json:"jobs" doc:"How many jobs ran, executions of sessions among them."`
	// CPUMS is CPU time, and MemoryMiBMS memory_mb times wall-clock time.
	CPUMS       int64 `json:"cpu_ms" doc:"CPU time, milliseconds."`
	MemoryMiBMS int64 `json:"memory_mib_ms" doc:"Memory as it was reserved (memory_mb) times wall-clock time, MiB milliseconds."`
	Cost        Cost  `json:"cost" doc:"By the operator's prices, as each result has it."`
}

// UsageReport is what a tenant's jobs used.
type UsageReport struct {
	From  string      `json:"from" example:"2026-11-01"`
	To    string      `json:"to" doc:"The last day." example:"2026-11-30"`
	Days  []DayUsage  `json:"days" nullable:"false" doc:"Those on which a job ended, the oldest first."`
	Total UsageCounts `json:"total"`
	// Budget is that of this month; nil where there is none.
	Budget *BudgetState `json:"budget,omitempty" doc:"This month's budget, if there is one, whatever days were asked for."`
}

// UsageRange reads two days, such as 2026-11-01, of which the second is the last: of neither the current month until
// today. It fails with [Invalid].
func UsageRange(from, to string, now time.Time) (first, last time.Time, err error) {
	var errs Invalid
	read := func(field, text string, otherwise time.Time) time.Time {
		if text == "" {
			return otherwise
		}
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			errs = append(errs, FieldError{field, clip(text), "is no day", "YYYY-MM-DD"})
		}
		return day
	}
	now = now.UTC()
	today := now.Truncate(24 * time.Hour)
	last = read("to", to, today)
	first = read("from", from, last.AddDate(0, 0, 1-last.Day()))
	if days := last.Sub(first).Hours()/24 + 1; len(errs) == 0 && (days < 1 || days > MaxUsageDays) {
		errs = append(errs, FieldError{"from", first.Format(time.DateOnly), "is not before to, or too long before it", fmt.Sprintf("1 to %d days", MaxUsageDays)})
	}
	if len(errs) > 0 {
		return first, last, errs
	}
	return first, last, nil
}
