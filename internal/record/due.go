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

// passDue releases jobs where a window has grown, a time to run has come, or a worker of
// before the backlog ended jobs; and ends those whose deadline has passed.
func (w *Sweeper) passDue(ctx context.Context) {
	release, overdue, err := w.Records.due(ctx)
	w.visit(ctx, releasePass, release, err, w.Records.release)
	w.visit(ctx, deadlinePass, overdue, nil, w.sweepDeadlines)
}

// due lists the tenants that have a backlog or jobs whose time to run has come, and those
// with deadlines that have passed. It takes a round trip for 500 tenants.
func (s *Store) due(ctx context.Context) (release, overdue []string, err error) {
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	now := strconv.FormatInt(ms(s.now()), 10)
	for some := range slices.Chunk(tenants, depthTenants) {
		pipe := s.rdb.Pipeline()
		type answer struct{ backlogs, later, deadlines *redis.IntCmd }
		answers := make([]answer, len(some))
		for i, tenant := range some {
			answers[i] = answer{
				pipe.Exists(ctx, backlogKeys(tenant)...),
				pipe.ZCount(ctx, laterKey(tenant), "-inf", now), pipe.ZCount(ctx, deadlineKey(tenant), "-inf", now),
			}
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, nil, fmt.Errorf("look for what is due: %w", err)
		}
		for i, tenant := range some {
			if answers[i].backlogs.Val()+answers[i].later.Val() > 0 {
				release = append(release, tenant)
			}
			if answers[i].deadlines.Val() > 0 {
				overdue = append(overdue, tenant)
			}
		}
	}
	return release, overdue, err
}

// sweepDeadlines ends the jobs that no worker has and whose deadline has passed. One that
// runs is ended by its worker; should that be lost, the job is queued again, and found then.
func (w *Sweeper) sweepDeadlines(ctx context.Context, tenant string) error {
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
