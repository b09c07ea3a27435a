package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// dueInterval is how often the sweeper looks for jobs to release and for deadlines: how late
// a job may be, besides what its queue makes of it.
const dueInterval = time.Second

// release releases jobs where a window has grown, a time to run has come, or a worker of
// before the backlog ended jobs.
func (w *Sweeper) release(ctx context.Context, tenants ...string) error {
	now := strconv.FormatInt(ms(w.Records.now()), 10)
	var errs []error
	for some := range slices.Chunk(tenants, atOnce) {
		var later []*redis.IntCmd
		backlogs, err := ask(ctx, w.Records, some, func(pipe redis.Pipeliner, tenant string) *redis.IntCmd {
			later = append(later, pipe.ZCount(ctx, laterKey(tenant), "-inf", now))
			return pipe.Exists(ctx, backlogKeys(tenant)...)
		})
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("look for backlogs: %w", err))...)
		}
		for i, tenant := range some {
			if backlogs[i].Val()+later[i].Val() > 0 {
				errs = append(errs, w.Records.release(ctx, tenant))
			}
		}
	}
	return errors.Join(errs...)
}

// whereDue lists those of these tenants that have something in the set which is due, for
// overdue at least.
func (s *Store) whereDue(ctx context.Context, tenants []string, set func(tenant string) string, overdue time.Duration) (some []string, err error) {
	until := strconv.FormatInt(ms(s.now().Add(-overdue)), 10)
	for group := range slices.Chunk(tenants, atOnce) {
		counts, err := ask(ctx, s, group, func(pipe redis.Pipeliner, tenant string) *redis.IntCmd {
			return pipe.ZCount(ctx, set(tenant), "-inf", until)
		})
		if err != nil {
			return nil, fmt.Errorf("look for what is due: %w", err)
		}
		for i, tenant := range group {
			if counts[i].Val() > 0 || counts[i].Err() != nil { // of an error, who looks further tells
				some = append(some, tenant)
			}
		}
	}
	return some, nil
}

// sweepDeadlines ends the jobs that no worker has and whose deadline has passed. One that
// runs is ended by its worker; should that be lost, the job is queued again, and found then.
func (w *Sweeper) sweepDeadlines(ctx context.Context, tenants ...string) error {
	overdue, err := w.Records.whereDue(ctx, tenants, deadlineKey, 0)
	if err != nil {
		return err
	}
	return perTenant(w.endOverdue)(ctx, overdue...)
}

func (w *Sweeper) endOverdue(ctx context.Context, tenant string) error {
	key := deadlineKey(tenant)
	ids, err := w.due(ctx, key, 0)
	if err != nil {
		return err
	}
	return w.each(ctx, key, ids, dueInterval, func(id string) error {
		j, err := w.Records.Get(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && j.State.Final():
			return w.Records.rdb.ZRem(ctx, key, id).Err()
		case err != nil || j.State != job.Queued:
			return err
		}
		return w.Records.EndWithout(ctx, id, j.Epoch, job.Canceled, ErrDeadline)
	})
}

// ErrDeadline is why a job ended that had not begun by its deadline, or still ran then.
var ErrDeadline = &job.Error{Code: job.CodeDeadlineExceeded, Message: "the job had not ended by its deadline"}
