package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// runsAtOnce is how many runs are looked at at once.
const runsAtOnce = 4

// advanceRuns looks at each run in which something has ended, and at those that stand still. One is put
// off as it is claimed: should this process die, or Advance fail, another looks after RunRetry.
func (w *Sweeper) advanceRuns(ctx context.Context, tenants ...string) error {
	if w.Advance == nil {
		return nil
	}
	now := w.Records.now()
	list, errs, err := w.claim(ctx, tenants, claims{set: "runwork", until: now.Add(RunRetry)})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	failed := newFireQueue(list).run(runsAtOnce, func(d due) error { return w.advanceRun(ctx, d, now) })
	return errors.Join(append(errs, failed...)...)
}

func (w *Sweeper) advanceRun(ctx context.Context, d due, now time.Time) error {
	if of, ok := job.TenantOfRun(d.id); !ok || of != d.tenant { // a worker may have written it
		return w.Records.rdb.ZRem(ctx, runWorkKey(d.tenant), d.id).Err()
	}
	ctx, cancel := context.WithTimeout(ctx, RunRetry)
	defer cancel()
	err := w.Advance(ctx, d.id, now)
	if errors.Is(err, job.ErrNotFound) { // it has expired
		return w.Records.rdb.ZRem(ctx, runWorkKey(d.tenant), d.id).Err()
	}
	if err != nil {
		return fmt.Errorf("advance run %s: %w", d.id, err)
	}
	return nil
}
