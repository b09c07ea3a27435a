package record

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// How much is looked at of one tenant's jobs and sessions, to tell which pool they are of.
const (
	// mostSampled is of how many jobs of a placement it is found out which run. Of more, it is taken to be as of these.
	mostSampled = 1000
	// mostSoon is of how many jobs that come due soon the placement is read. The others are taken to be as these.
	mostSoon = 100
	// mostFirst is among how many released jobs one is looked for that has waited for long, and mostHolding of how many
	// sessions it is read which pool they are of.
	mostFirst   = 16
	mostHolding = 64
)

// partRead is what is asked of a tenant that has jobs with placements.
type partRead struct {
	pools, first, soon, sessions *redis.StringSliceCmd
	lanes                        []laneRead
	ended                        *redis.SliceCmd                                    // of each of the lanes
	of                           struct{ first, soon, sessions []*redis.StringCmd } // placements of these jobs, settings of these sessions
}

// laneRead is what is asked of one of its placements. What there is no need to ask is nil.
type laneRead struct {
	placement string
	pool      int                   // -1: counted with none
	sample    *redis.StringSliceCmd // of those that are released or run
	all       *redis.IntCmd         // where these are more
	running   *redis.SliceCmd       // of the sample
	backlogs  []*redis.IntCmd
	firsts    []*redis.StringSliceCmd
	ended     int64
}

// laneCount are the jobs of one placement.
type laneCount struct{ running, released, backlog, ended int64 }

// part finds out what these tenants, who have jobs with placements, want of each pool. What a worker has spoiled counts as nothing.
func (d *demand) part(ctx context.Context, tenants []*tenantDemand) error {
	reads := make([]partRead, len(tenants))
	for _, ask := range []func(context.Context, redis.Pipeliner, *tenantDemand, *partRead){d.askLists, d.askLanes, d.askJobs} {
		pipe := d.store.rdb.Pipeline()
		for i, t := range tenants {
			ask(ctx, pipe, t, &reads[i])
		}
		if pipe.Len() == 0 {
			continue
		}
		if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
			return err
		}
	}
	for i, t := range tenants {
		d.divide(t, &reads[i])
	}
	return nil
}

// askLists asks for a tenant's placements, and for ids of what has to be looked at one by one.
func (d *demand) askLists(ctx context.Context, pipe redis.Pipeliner, t *tenantDemand, r *partRead) {
	r.pools = pipe.ZRange(ctx, poolsKey(t.name), 0, 2*mostPools-1)
	r.first = pipe.ZRange(ctx, openKey(t.name), 0, mostFirst-1)
	r.soon = pipe.ZRangeByScore(ctx, laterKey(t.name), &redis.ZRangeBy{Min: "-inf", Max: dueBy(d.at.Add(d.soon)), Count: mostSoon})
	r.sessions = pipe.ZRange(ctx, sessionWorkKey(t.name), 0, mostHolding-1)
}

// askLanes asks what there is of each placement, and for the placements of those ids. What is counted with no pool has to be known
// where the rest is counted.
func (d *demand) askLanes(ctx context.Context, pipe redis.Pipeliner, t *tenantDemand, r *partRead) {
	var fields []string
	for _, placement := range r.pools.Val() {
		l := laneRead{placement: placement, pool: d.poolOf(placement)}
		if l.pool < 0 && !d.pools.HasCommon() {
			continue
		}
		if t.read.open.Val()+t.all.Running > 0 {
			l.sample = pipe.SRandMemberN(ctx, placedKey(t.name, placement), mostSampled)
		}
		if l.pool >= 0 && t.read.placed.Val() > 0 {
			for _, k := range poolBacklogs(t.name, placement) {
				l.backlogs = append(l.backlogs, pipe.ZCard(ctx, k))
			}
		}
		r.lanes = append(r.lanes, l)
		fields = append(fields, placement)
	}
	if len(fields) > 0 && t.all.Ended > 0 {
		r.ended = pipe.HMGet(ctx, placedUsageKey(t.name, d.at), fields...)
	}
	for _, id := range r.first.Val() {
		r.of.first = append(r.of.first, pipe.HGet(ctx, jobKey(t.name, id), "placement"))
	}
	for _, id := range r.soon.Val() {
		r.of.soon = append(r.of.soon, pipe.HGet(ctx, jobKey(t.name, id), "placement"))
	}
	for _, id := range r.sessions.Val() {
		r.of.sessions = append(r.of.sessions, pipe.HGet(ctx, sessionKey(t.name, id), "settings"))
	}
}

// askJobs asks which of a placement's jobs run, as its others are released, and which are first in its backlogs.
func (d *demand) askJobs(ctx context.Context, pipe redis.Pipeliner, t *tenantDemand, r *partRead) {
	for i := range r.lanes {
		l := &r.lanes[i]
		if l.sample != nil && len(l.sample.Val()) > 0 && t.all.Running > 0 {
			l.running = pipe.HMGet(ctx, runningKey(t.name), l.sample.Val()...)
		}
		if l.sample != nil && len(l.sample.Val()) == mostSampled {
			l.all = pipe.SCard(ctx, placedKey(t.name, l.placement))
		}
		for k, key := range poolBacklogs(t.name, l.placement) {
			if len(l.backlogs) > 0 && l.backlogs[k].Val() > 0 {
				l.firsts = append(l.firsts, pipe.ZRange(ctx, key, 0, 0))
			}
		}
		if r.ended != nil && i < len(r.ended.Val()) {
			text, _ := r.ended.Val()[i].(string)
			n, _ := strconv.ParseInt(text, 10, 64) // 0 where none has
			l.ended = max(n, 0)
		}
	}
}

func (l *laneRead) count() laneCount {
	n := laneCount{ended: l.ended}
	if l.sample != nil {
		n.released = int64(len(l.sample.Val()))
	}
	if l.running != nil {
		for _, worker := range l.running.Val() {
			if worker != nil {
				n.running++
			}
		}
	}
	if l.all != nil {
		n.running, n.released = shareOf(l.all.Val(), n.running, mostSampled), l.all.Val()
	}
	n.released -= n.running
	for _, b := range l.backlogs {
		n.backlog += b.Val()
	}
	return n
}

// shareOf is how many of all there are of a kind of which n are among looked.
func shareOf(all, n int64, looked int) int64 { return all * n / int64(max(looked, 1)) }

// divide says what a tenant wants of each pool.
func (d *demand) divide(t *tenantDemand, r *partRead) {
	rest := laneCount{running: t.all.Running, released: t.read.open.Val(), ended: t.all.Ended}
	for i := range r.lanes {
		l := &r.lanes[i]
		n := l.count()
		rest.running -= n.running
		rest.released -= n.released
		rest.ended -= n.ended
		t.give(l.pool, n, l.firsts)
	}
	for _, b := range t.read.backlogs {
		rest.backlog += b.Val()
	}
	// It was not all counted at the same moment.
	rest.running, rest.released, rest.ended = max(rest.running, 0), max(rest.released, 0), max(rest.ended, 0)
	t.give(d.poolOf(""), rest, t.read.firsts[1:]) // the first of those that are released may be of any placement
	soon := make([]int64, len(d.pools))
	for _, placement := range r.of.soon {
		if i := d.poolOf(placement.Val()); i >= 0 {
			soon[i]++
		}
	}
	for i, n := range soon {
		t.parts[i].Soon += shareOf(t.all.Soon, n, len(r.of.soon))
	}
	seen := make([]bool, len(d.pools))
	for k, placement := range r.of.first {
		if i := d.poolOf(placement.Val()); i >= 0 && !seen[i] {
			seen[i] = true
			t.firsts[i] = append(t.firsts[i], r.first.Val()[k])
		}
	}
	for _, text := range r.of.sessions {
		var settings struct{ Placement job.Labels }
		if b, err := text.Bytes(); err != nil || json.Unmarshal(b, &settings) != nil {
			continue
		}
		if i := d.poolOf(settings.Placement.String()); i >= 0 {
			t.sessions[i]++
		}
	}
}

// give adds jobs to what the tenant wants of a pool; -1 is none.
func (t *tenantDemand) give(pool int, n laneCount, firsts []*redis.StringSliceCmd) {
	if pool < 0 {
		return
	}
	p := &t.parts[pool]
	p.Running += n.running
	p.Queued += n.released + n.backlog
	p.Ended += n.ended
	for _, f := range firsts {
		t.firsts[pool] = append(t.firsts[pool], f.Val()...)
	}
}

// placedUsageKey has how many jobs of each placement have ended on that day.
func placedUsageKey(tenant string, at time.Time) string { return usageKey(tenant, at) + ":placed" }
