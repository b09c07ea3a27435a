package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// Depth is how much there is to do, of all tenants together.
type Depth struct {
	// Queued and Running are jobs, Deliveries webhook messages that are not done,
	// Garbage jobs whose objects are to be looked at, now or later.
	Queued, Running, Deliveries, Garbage int64
	// Scheduled jobs may not run yet. They are not among the Queued.
	Scheduled int64
	// Held jobs wait for a decision. They are not among the Queued.
	Held int64
	// OverWindow are the Queued of tenants that have a backlog, and OverTenants how many of
	// these there are. Backlog of them are not released.
	OverWindow, OverTenants, Backlog int64
	// Unserved are jobs of the Backlog whose labels no worker that takes jobs has.
	Unserved int64
	// BacklogOldest is how long the job has waited that is first in a backlog for longest.
	BacklogOldest time.Duration
	Queues        []queue.Depth
}

// Depth counts what there is to do. It takes two round trips for 500 tenants, and two for 100 queues; one more where jobs with placements wait
// in a backlog, and one for 500 of their tenants, and for 500 of their backlogs, while no worker has the labels of some placement.
func (s *Store) Depth(ctx context.Context) (Depth, error) {
	var d Depth
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	for len(tenants) > 0 && err == nil {
		some := tenants[:min(len(tenants), redisconn.AtOnce)]
		tenants = tenants[len(some):]
		err = s.addDepth(ctx, &d, some)
	}
	if err != nil {
		return Depth{}, fmt.Errorf("count what there is to do: %w", err)
	}
	if d.Queues, err = s.Queue.Depths(ctx); err != nil {
		return Depth{}, fmt.Errorf("count what there is to do: %w", err)
	}
	return d, nil
}

func (s *Store) addDepth(ctx context.Context, d *Depth, tenants []string) error {
	type answer struct {
		open, later, held, running, deliveries, garbage *redis.IntCmd
		backlogs                                        []*redis.IntCmd
		firsts                                          []*redis.StringSliceCmd
	}
	pipe := s.rdb.Pipeline()
	answers := make([]answer, len(tenants))
	for i, t := range tenants {
		a := answer{
			open: pipe.ZCard(ctx, openKey(t)), later: pipe.ZCard(ctx, laterKey(t)), held: pipe.ZCard(ctx, approvalsKey(t)), running: pipe.HLen(ctx, runningKey(t)),
			deliveries: pipe.ZCard(ctx, outboxKey(t)), garbage: pipe.ZCard(ctx, garbageKey(t)),
		}
		for _, k := range backlogKeys(t) {
			a.backlogs, a.firsts = append(a.backlogs, pipe.ZCard(ctx, k)), append(a.firsts, pipe.ZRange(ctx, k, 0, 0))
		}
		answers[i] = a
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil { // what can't be counted is 0
		return err
	}
	var firsts, placed []string // jobs that are first in a backlog; tenants that have one of jobs with placements
	for i, a := range answers {
		backlog := int64(0)
		for k := range a.backlogs {
			backlog += a.backlogs[k].Val()
			firsts = append(firsts, a.firsts[k].Val()...)
		}
		d.Queued += a.open.Val() + backlog
		d.Scheduled += a.later.Val()
		d.Held += a.held.Val()
		d.Running += a.running.Val()
		d.Deliveries += a.deliveries.Val()
		d.Garbage += a.garbage.Val()
		if backlog > 0 {
			d.Backlog += backlog
			d.OverWindow += a.open.Val() + backlog
			d.OverTenants++
		}
		if a.backlogs[len(a.backlogs)-1].Val() > 0 { // the last is that of jobs with placements
			placed = append(placed, tenants[i])
		}
	}
	if err := s.addUnserved(ctx, d, placed); err != nil {
		return err
	}
	return s.addOldest(ctx, d, firsts)
}

// addUnserved counts jobs whose placement no worker serves, of these tenants, which have a backlog of jobs with placements.
func (s *Store) addUnserved(ctx context.Context, d *Depth, tenants []string) error {
	if len(tenants) == 0 {
		return nil
	}
	windows, err := s.Fleet.Pools(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(windows, func(_ string, window int64) bool { return window > 0 })
	if len(windows) == 0 {
		return nil
	}
	var backlogs []string
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		pools, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.StringSliceCmd {
			return pipe.ZRange(ctx, poolsKey(tenant), 0, mostPoolsRead-1)
		})
		if err != nil {
			return err
		}
		for i, tenant := range some {
			for _, placement := range pools[i].Val() {
				if _, unserved := windows[placement]; unserved {
					backlogs = append(backlogs, poolBacklogs(tenant, placement)...)
				}
			}
		}
	}
	for some := range slices.Chunk(backlogs, redisconn.AtOnce) {
		waiting, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, key string) *redis.IntCmd { return pipe.ZCard(ctx, key) })
		if err != nil {
			return err
		}
		for _, n := range waiting {
			d.Unserved += n.Val()
		}
	}
	return nil
}

// addOldest looks how long these jobs have waited.
func (s *Store) addOldest(ctx context.Context, d *Depth, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	times := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		tenant, _ := job.TenantOf(id)
		times[i] = pipe.HMGet(ctx, jobKey(tenant, id), "created", "run_at")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return err
	}
	for i, id := range ids {
		if times[i].Err() != nil { // no record
			continue
		}
		fields := map[string]string{}
		fields["created"], _ = times[i].Val()[0].(string) // nil where the job is gone by now
		fields["run_at"], _ = times[i].Val()[1].(string)
		j, err := parseJob("", id, fields)
		if err == nil && !j.Created.IsZero() {
			d.BacklogOldest = max(d.BacklogOldest, s.now().Sub(j.Ready()))
		}
	}
	return nil
}
