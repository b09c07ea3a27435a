package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const day = 24 * time.Hour

func usageKey(tenant string, at time.Time) string {
	return script.Key(tenant, "usage:"+strconv.FormatInt(at.Unix()/int64(day.Seconds()), 10))
}

// Usage returns what a tenant's jobs used on the days from first to last.
func (s *Store) Usage(ctx context.Context, tenant string, first, last time.Time) (job.UsageReport, error) {
	u := job.UsageReport{From: first.Format(time.DateOnly), To: last.Format(time.DateOnly), Days: []job.DayUsage{}}
	if !job.ValidTenant(tenant) {
		return u, job.ErrNoTenant
	}
	pipe := s.rdb.Pipeline()
	var answers []*redis.MapStringStringCmd
	for at := first; !at.After(last); at = at.Add(day) {
		answers = append(answers, pipe.HGetAll(ctx, usageKey(tenant, at)))
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return u, fmt.Errorf("read usage: %w", err)
	}
	var total Metered
	for i, a := range answers {
		f, err := a.Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return u, fmt.Errorf("read usage: %w", err)
		}
		if len(f) == 0 {
			continue
		}
		r := fields{of: "usage of " + tenant, f: f}
		m := Metered{r.number("cpu_ms"), r.number("mib_ms"), r.number("nano")}
		d := job.DayUsage{Day: first.Add(time.Duration(i) * day).Format(time.DateOnly), UsageCounts: m.counts(r.number("jobs"))}
		if r.err != nil { // a worker has spoiled it
			s.unreadable.PassOver("a day's usage", r.err)
			continue
		}
		u.Days = append(u.Days, d)
		total = Metered{total.CPUMS + m.CPUMS, total.MiBMS + m.MiBMS, total.Nano + m.Nano}
		u.Total.Jobs += d.Jobs
	}
	u.Total = total.counts(u.Total.Jobs)
	var err error
	u.Budget, err = s.budgetState(ctx, tenant)
	return u, err
}

func (m Metered) counts(jobs int64) job.UsageCounts {
	return job.UsageCounts{Jobs: jobs, CPUMS: m.CPUMS, MemoryMiBMS: m.MiBMS, Cost: job.NewCost(m.Nano)}
}
