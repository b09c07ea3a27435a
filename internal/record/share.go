package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// waitingTenant is a tenant with jobs that are to be released.
type waitingTenant struct {
	tenant string
	// backlogged tenants wait for a window, for jobs without a placement; of due ones a time to run has come.
	backlogged, due bool
	// pooled ones have jobs with placements, whose windows are in Redis.
	pooled bool
	// held is how many jobs without a placement are released or run.
	held  int64
	terms job.Terms
}

// release shares the queue out between the tenants with a backlog, and releases their jobs
// where there is room, and those whose time to run has come.
func (w *Sweeper) release(ctx context.Context, tenants ...string) error {
	list, errs, err := w.Records.waitingTenants(ctx, tenants)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	list, failed, err := w.Records.shareOutPools(ctx, tenants, list)
	if errs = append(errs, failed...); err != nil {
		return errors.Join(append(errs, err)...)
	}
	share, err := w.Records.shareOut(ctx, list)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	list = slices.DeleteFunc(list, func(t waitingTenant) bool { return !t.due && !t.pooled && t.held >= narrow(share, t.terms) })
	for some := range slices.Chunk(list, redisconn.AtOnce) {
		failed, err := w.Records.releaseMany(ctx, some, share)
		if errs = append(errs, failed...); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

// waitingTenants lists the tenants that have a backlog, or jobs whose time to run has come. errs are of
// those that can't be looked at.
func (s *Store) waitingTenants(ctx context.Context, tenants []string) (list []waitingTenant, errs []error, err error) {
	now := strconv.FormatInt(ms(s.now()), 10)
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		var later []*redis.IntCmd
		backlogs, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.IntCmd {
			later = append(later, pipe.ZCount(ctx, laterKey(tenant), "-inf", now))
			return pipe.Exists(ctx, commonBacklogs(tenant)...)
		})
		if err != nil {
			return nil, errs, fmt.Errorf("look for backlogs: %w", err)
		}
		var found []waitingTenant
		for i, tenant := range some {
			if err := later[i].Err(); err != nil {
				errs = append(errs, fmt.Errorf("look for jobs of tenant %s whose time has come: %w", tenant, err))
			}
			if t := (waitingTenant{tenant: tenant, backlogged: backlogs[i].Val() > 0, due: later[i].Val() > 0}); t.backlogged || t.due {
				found = append(found, t)
			}
		}
		found, failed, err := s.readWindows(ctx, found)
		if errs = append(errs, failed...); err != nil {
			return nil, errs, err
		}
		list = append(list, found...)
	}
	return list, errs, nil
}

// readWindows completes what is known of these tenants, and leaves those out of which it can't.
func (s *Store) readWindows(ctx context.Context, list []waitingTenant) (complete []waitingTenant, errs []error, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	pipe := s.rdb.Pipeline()
	open, running, terms := make([]*redis.IntCmd, len(list)), make([]*redis.IntCmd, len(list)), make([]*redis.StringCmd, len(list))
	for i, t := range list {
		open[i], running[i] = pipe.ZCard(ctx, openKey(t.tenant)), pipe.HLen(ctx, runningKey(t.tenant))
		terms[i] = pipe.HGet(ctx, tenantKey(t.tenant), "terms")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, nil, fmt.Errorf("look at windows: %w", err)
	}
	for i, t := range list {
		t.held = open[i].Val() + running[i].Val()
		text, err := terms[i].Bytes()
		if err == nil {
			err = json.Unmarshal(text, &t.terms)
		} else if errors.Is(err, redis.Nil) { // a tenant without a record has no quotas
			err = nil
		}
		if err = cmp.Or(err, open[i].Err(), running[i].Err()); err != nil {
			errs = append(errs, fmt.Errorf("look at the window of tenant %s: %w", t.tenant, err))
			continue
		}
		complete = append(complete, t)
	}
	return complete, errs, nil
}

// shareOut says how many jobs each tenant with a backlog may have released or running, so
// that all together have as many as the fleet has use for.
func (s *Store) shareOut(ctx context.Context, list []waitingTenant) (share int64, err error) {
	slots, _, err := s.readCapacity(ctx)
	if err != nil {
		return 0, err
	}
	pipe := s.rdb.Pipeline()
	note := s.Queue.ReadLoad(ctx, pipe)
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return 0, fmt.Errorf("count tasks: %w", err)
	}
	note()
	others, _ := s.Queue.Load() // tasks of those without a backlog
	var most []int64
	for _, t := range list {
		if t.backlogged {
			others -= t.held
			most = append(most, narrow(ahead(slots), t.terms))
		}
	}
	share = fairShare(ahead(slots), max(others, 0), most)
	if err := s.rdb.Set(ctx, shareKey, share, shareLife).Err(); err != nil {
		return 0, fmt.Errorf("share out the queue: %w", err)
	}
	s.capacity.mu.Lock()
	defer s.capacity.mu.Unlock()
	s.capacity.share = share
	return share, nil
}

// fairShare is how many each may take so that together with what others have they take
// total, where most says how many one may at most: none gets less than it may for another
// to get more than the share. It is one at least, so that everybody's turn comes.
func fairShare(total, others int64, most []int64) int64 {
	left := total - others
	slices.Sort(most)
	for i, m := range most {
		n := int64(len(most) - i) // that may take m or more
		if m*n >= left {
			return min(max((left+n-1)/n, 1), total)
		}
		left -= m
	}
	return total
}

// releaseMany releases jobs of these tenants, some 500, in one round trip, and enqueues them.
func (s *Store) releaseMany(ctx context.Context, list []waitingTenant, share int64) (errs []error, err error) {
	now := s.now()
	windows, tenants := map[string]int64{}, make([]string, len(list))
	for i, t := range list {
		windows[t.tenant], tenants[i] = narrow(share, t.terms), t.tenant
	}
	answers, err := runEach(ctx, s, releaseScript, tenants, func(tenant string) script.Args {
		return script.Args{"now": now, "due": now.Add(sweepDelay), "window": windows[tenant]}
	})
	if err != nil {
		return nil, fmt.Errorf("release jobs: %w", err)
	}
	var all []any
	for i, a := range answers {
		released, err := a.Slice()
		if err != nil {
			errs = append(errs, fmt.Errorf("release jobs of tenant %s: %w", tenants[i], err))
		}
		all = append(all, released...)
	}
	if err := s.enqueueReleased(ctx, all); err != nil {
		errs = append(errs, err)
	}
	return errs, nil
}
