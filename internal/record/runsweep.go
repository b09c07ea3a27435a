package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// runsAtOnce is how many runs are looked at at once.
	runsAtOnce = 4
	// followPause is the least time between two looks at what has just ended: all that ends meanwhile is one look.
	followPause = 50 * time.Millisecond
	// foundRuns is how many runs of a tenant one pass looks through for those that nobody would look at. The next goes on there.
	foundRuns = 1000
	// foundAge is how old a run may be that lives: its deadline is a day after it began at the latest, and some pass is late.
	foundAge = 3 * 24 * time.Hour
	// mostFollowed is how many tenants one such look is for. The pass finds the others.
	mostFollowed = 256
)

// followRuns looks at runs as soon as something has ended in them. What it misses, the pass finds.
func (w *Sweeper) followRuns(ctx context.Context) {
	if w.Advance == nil {
		return
	}
	ended := w.Records.rdb.Subscribe(ctx, runChannel)
	defer ended.Close()
	ids := ended.Channel(redis.WithChannelHealthCheckInterval(redisconn.HealthCheck))
	for {
		tenants := map[string]bool{}
		for waiting := time.After(followPause); waiting != nil || len(tenants) == 0; {
			select {
			case <-ctx.Done():
				return
			case m, open := <-ids:
				if !open {
					return
				}
				if tenant, ok := job.TenantOfRun(m.Payload); ok && len(tenants) < mostFollowed { // a worker may have sent it
					tenants[tenant] = true
				}
			case <-waiting:
				waiting = nil
			}
		}
		if err := w.advanceRuns(ctx, slices.Sorted(maps.Keys(tenants))...); err != nil && ctx.Err() == nil {
			w.Log.Warn("sweeper: runs could not be looked at, they are again", "error", err)
		}
	}
}

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

// findRuns has runs looked at that live and would not be: a worker, which notes ends in the same set, may have taken one out, or
// put it off for good. A tenant's list is gone through from the newest run on, in as many passes as that takes.
func (w *Sweeper) findRuns(ctx context.Context, tenants ...string) error {
	var errs []error
	if w.foundTo == nil {
		w.foundTo = map[string]Position{}
	}
	oldest := "[" + string(PositionAt(w.Records.now().Add(-foundAge)))
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		lists, err := redisconn.Ask(ctx, w.Records.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.StringSliceCmd {
			return pipe.ZRangeArgs(ctx, redis.ZRangeArgs{Key: runsKey(tenant), ByLex: true, Rev: true, Start: w.foundFrom(tenant), Stop: oldest, Count: foundRuns})
		})
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("look for runs: %w", err))...)
		}
		for i, tenant := range some {
			if len(lists[i].Val()) > 0 || lists[i].Err() != nil {
				errs = append(errs, w.findRunsOf(ctx, tenant, lists[i].Val()))
			}
			if n := len(lists[i].Val()); n < foundRuns {
				delete(w.foundTo, tenant)
			} else {
				w.foundTo[tenant] = Position(lists[i].Val()[n-1])
			}
		}
	}
	return errors.Join(errs...)
}

// foundFrom is where a pass begins in a tenant's list.
func (w *Sweeper) foundFrom(tenant string) string {
	if to := w.foundTo[tenant]; to != "" {
		return "(" + string(to)
	}
	return "+"
}

func (w *Sweeper) findRunsOf(ctx context.Context, tenant string, list []string) error {
	pipe := w.Records.rdb.Pipeline()
	states, scores := make([]*redis.StringCmd, len(list)), make([]*redis.FloatCmd, len(list))
	for i, entry := range list {
		id := Position(entry).id()
		states[i], scores[i] = pipe.HGet(ctx, runKey(tenant, id), "state"), pipe.ZScore(ctx, runWorkKey(tenant), id)
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("look for runs of %s: %w", tenant, err)
	}
	latest := float64(ms(w.Records.now().Add(2 * standstill)))
	for i, entry := range list {
		lives := states[i].Val() == string(job.Running)
		if put := scores[i].Val(); lives && (scores[i].Err() != nil || put > latest) {
			put := func() error {
				return w.Records.rdb.ZAdd(ctx, runWorkKey(tenant), redis.Z{Member: Position(entry).id()}).Err()
			}
			err := put()
			if redis.HasErrorPrefix(err, "WRONGTYPE") { // a worker has made another type of it
				err = errors.Join(w.Records.rdb.Del(ctx, runWorkKey(tenant)).Err(), put())
			}
			if err != nil {
				return fmt.Errorf("look at a run of %s again: %w", tenant, err)
			}
		}
	}
	return nil
}
