package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// Demand is what the workers of each of these pools are wanted for: the jobs of each tenant that has any, or has had some today, with those
// that come due within soon. Each job, session and worker is counted with one pool, or with none: see [autoscale.Pools.OfJob]. It takes a
// round trip for 500 tenants, and one for each pool for which some wait; three more for 31 tenants that have jobs with placements; and a few for the workers.
func (s *Store) Demand(ctx context.Context, soon time.Duration, pools autoscale.Pools) ([]autoscale.Load, error) {
	d := demand{store: s, pools: pools, at: s.now(), soon: soon, loads: make([]autoscale.Load, len(pools)), known: map[string]int{}}
	for i := range d.loads {
		d.loads[i].Pool, d.loads[i].At = pools.Name(i), d.at
	}
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	pooled, err := s.rdb.ZRange(ctx, pooledKey, 0, -1).Result()
	if err != nil && !redisconn.WrongType(err) { // the sweeper forgets what is of another type
		return nil, fmt.Errorf("list tenants whose jobs have placements: %w", err)
	}
	if err := d.countWorkers(ctx); err != nil {
		return nil, fmt.Errorf("count workers: %w", err)
	}
	slices.Sort(pooled)
	if !pools.HasCommon() { // nobody else's jobs are counted
		tenants = slices.DeleteFunc(tenants, func(t string) bool { return !contains(pooled, t) })
	}
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		if err := d.add(ctx, some, pooled); err != nil {
			return nil, fmt.Errorf("count what workers are wanted for: %w", err)
		}
	}
	return d.loads, nil
}

// demand is what is found out of each pool in one look.
type demand struct {
	store *Store
	pools autoscale.Pools
	at    time.Time
	soon  time.Duration
	loads []autoscale.Load
	// unlocked are the kinds of workers that are kept for no jobs, and live or have lived within a week.
	unlocked []fleet.Slots
	// known has the pool of each placement that was met.
	known map[string]int
}

func (d *demand) countWorkers(ctx context.Context) error {
	living, err := d.store.Fleet.Living(ctx)
	if err != nil {
		return err
	}
	for _, w := range living {
		switch i := d.pools.OfWorker(w.Labels, w.Only); {
		case i < 0:
		case w.Slots > 0:
			d.loads[i].Workers++
		default:
			d.loads[i].Paused++
		}
	}
	if !d.pools.HasCommon() {
		return nil
	}
	kinds, err := d.store.Fleet.Kinds(ctx)
	d.unlocked = slices.DeleteFunc(append(kinds, living...), func(w fleet.Slots) bool { return len(w.Only) > 0 })
	return err
}

// poolOf is the pool that jobs with that placement are counted with, -1 for none, as for what is no placement.
func (d *demand) poolOf(placement string) int {
	i, known := d.known[placement]
	if known {
		return i
	}
	i = -1
	if labels, err := job.ParseLabels(placement, job.MaxPlacement); err == nil {
		i = d.pools.OfJob(labels, func(p job.Labels) bool {
			return slices.ContainsFunc(d.unlocked, func(w fleet.Slots) bool { return w.Serves(p) })
		})
	}
	d.known[placement] = i
	return i
}

// demandRead is what is asked of one tenant, whatever its jobs' placements.
type demandRead struct {
	open, running, soon, sessions, placed *redis.IntCmd
	backlogs                              []*redis.IntCmd
	firsts                                []*redis.StringSliceCmd // of those that wait
	terms, ended                          *redis.StringCmd
}

// tenantDemand is what one tenant wants of each pool.
type tenantDemand struct {
	name string
	// all is what it wants, jobs aside that have a placement and wait in a backlog.
	all  autoscale.Tenant
	read demandRead
	// parts, sessions and firsts are by pool. firsts are jobs of which one has waited longest.
	parts    []autoscale.Tenant
	sessions []int64
	firsts   [][]string
}

// poolListsAtOnce is how many tenants with placements one pipeline asks for: each may have 16.
const poolListsAtOnce = redisconn.AtOnce / mostPools

func (d *demand) add(ctx context.Context, tenants, pooled []string) error {
	due := dueBy(d.at.Add(d.soon))
	pipe := d.store.rdb.Pipeline()
	reads := make([]demandRead, len(tenants))
	for i, t := range tenants {
		r := demandRead{
			open: pipe.ZCard(ctx, openKey(t)), running: pipe.HLen(ctx, runningKey(t)), soon: pipe.ZCount(ctx, laterKey(t), "-inf", due),
			sessions: pipe.ZCard(ctx, sessionWorkKey(t)), placed: pipe.ZCard(ctx, placedBacklogKey(t)), terms: pipe.HGet(ctx, tenantKey(t), "terms"),
			ended: pipe.HGet(ctx, usageKey(t, d.at), "jobs"), firsts: []*redis.StringSliceCmd{pipe.ZRange(ctx, openKey(t), 0, 0)},
		}
		for _, k := range commonBacklogs(t) {
			r.backlogs, r.firsts = append(r.backlogs, pipe.ZCard(ctx, k)), append(r.firsts, pipe.ZRange(ctx, k, 0, 0))
		}
		reads[i] = r
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil { // what can't be counted is 0
		return err
	}
	var found, parted []*tenantDemand
	common := d.poolOf("")
	for i, r := range reads {
		t, err := d.tenant(tenants[i], r)
		if err != nil {
			d.store.unreadable.PassOver("what tenant "+tenants[i]+" wants workers for", err)
		}
		if t.all.Queued+t.all.Running+t.all.Soon+t.all.Ended+r.placed.Val()+r.sessions.Val() == 0 {
			continue
		}
		found = append(found, t)
		if contains(pooled, t.name) {
			parted = append(parted, t)
		} else if common >= 0 {
			t.parts[common], t.sessions[common] = t.all, r.sessions.Val()
			for _, f := range r.firsts {
				t.firsts[common] = append(t.firsts[common], f.Val()...)
			}
		}
	}
	for some := range slices.Chunk(parted, poolListsAtOnce) {
		if err := d.part(ctx, some); err != nil {
			return err
		}
	}
	return d.take(ctx, found)
}

// tenant is what was answered. Terms that can't be read bound nothing.
func (d *demand) tenant(name string, r demandRead) (*tenantDemand, error) {
	t := autoscale.Tenant{Name: name, Queued: r.open.Val(), Running: r.running.Val(), Soon: r.soon.Val()}
	for _, b := range r.backlogs {
		t.Queued += b.Val()
	}
	var errs []error
	ended, err := r.ended.Int64()
	if !errors.Is(err, redis.Nil) {
		errs = append(errs, err)
	}
	t.Ended = max(ended, 0)
	var terms job.Terms
	text, err := r.terms.Bytes()
	if err == nil {
		err = json.Unmarshal(text, &terms)
	}
	if !errors.Is(err, redis.Nil) { // a tenant without a record has no quotas
		errs = append(errs, err)
	}
	t.Quota = terms.Quotas.RunningAtOnce
	n := len(d.pools)
	td := &tenantDemand{name: name, all: t, read: r, parts: make([]autoscale.Tenant, n), sessions: make([]int64, n), firsts: make([][]string, n)}
	return td, errors.Join(errs...)
}

// take adds what tenants want of each pool to its load.
func (d *demand) take(ctx context.Context, tenants []*tenantDemand) error {
	for i := range d.pools {
		load := &d.loads[i]
		var firsts []string
		for _, t := range tenants {
			load.Sessions += t.sessions[i]
			part := t.parts[i]
			if part.Queued+part.Running+part.Soon+part.Ended == 0 {
				continue
			}
			part.Name, part.Quota = t.name, t.all.Quota
			load.Tenants = append(load.Tenants, part)
			if part.Quota == 0 || t.read.open.Val()+t.all.Running < part.Quota { // else another worker would change nothing for it
				firsts = append(firsts, t.firsts[i]...)
			}
		}
		var oldest Depth
		if err := d.store.addOldest(ctx, &oldest, firsts); err != nil {
			return err
		}
		load.Oldest = max(load.Oldest, oldest.BacklogOldest)
	}
	return nil
}

func dueBy(at time.Time) string { return strconv.FormatInt(ms(at), 10) }
