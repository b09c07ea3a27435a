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
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// Demand is what workers are wanted for: the jobs of each tenant that has any, or has had some today, with those
// that come due within soon. It takes two round trips for 500 tenants, and two for the workers.
func (s *Store) Demand(ctx context.Context, soon time.Duration) (autoscale.Load, error) {
	load := autoscale.Load{At: s.now()}
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return load, fmt.Errorf("list tenants: %w", err)
	}
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		if err := s.addDemand(ctx, &load, some, soon); err != nil {
			return load, fmt.Errorf("count what workers are wanted for: %w", err)
		}
	}
	load.Workers, load.Paused, err = s.Fleet.Count(ctx)
	return load, err
}

// demandRead is what is asked of one tenant.
type demandRead struct {
	open, running, soon, sessions *redis.IntCmd
	backlogs                      []*redis.IntCmd
	firsts                        []*redis.StringSliceCmd // of those that wait
	terms, ended                  *redis.StringCmd
}

func (s *Store) addDemand(ctx context.Context, load *autoscale.Load, tenants []string, soon time.Duration) error {
	due := strconv.FormatInt(ms(load.At.Add(soon)), 10)
	pipe := s.rdb.Pipeline()
	reads := make([]demandRead, len(tenants))
	for i, t := range tenants {
		r := demandRead{
			open: pipe.ZCard(ctx, openKey(t)), running: pipe.HLen(ctx, runningKey(t)), soon: pipe.ZCount(ctx, laterKey(t), "-inf", due),
			sessions: pipe.ZCard(ctx, sessionWorkKey(t)), terms: pipe.HGet(ctx, tenantKey(t), "terms"), ended: pipe.HGet(ctx, usageKey(t, load.At), "jobs"),
			firsts: []*redis.StringSliceCmd{pipe.ZRange(ctx, openKey(t), 0, 0)},
		}
		for _, k := range backlogKeys(t) {
			r.backlogs, r.firsts = append(r.backlogs, pipe.ZCard(ctx, k)), append(r.firsts, pipe.ZRange(ctx, k, 0, 0))
		}
		reads[i] = r
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil { // what can't be counted is 0
		return err
	}
	var firsts []string
	for i, r := range reads {
		t, err := r.tenant(tenants[i])
		if err != nil {
			s.unreadable.PassOver("what tenant "+tenants[i]+" wants workers for", err)
		}
		load.Sessions += r.sessions.Val()
		if t.Queued+t.Running+t.Soon+t.Ended == 0 {
			continue
		}
		load.Tenants = append(load.Tenants, t)
		if t.Quota > 0 && r.open.Val()+t.Running >= t.Quota { // another worker would change nothing for it
			continue
		}
		for _, f := range r.firsts {
			firsts = append(firsts, f.Val()...)
		}
	}
	var d Depth
	if err := s.addOldest(ctx, &d, firsts); err != nil {
		return err
	}
	load.Oldest = max(load.Oldest, d.BacklogOldest)
	return nil
}

// tenant is what was answered. Terms that can't be read bound nothing.
func (r demandRead) tenant(name string) (autoscale.Tenant, error) {
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
	return t, errors.Join(errs...)
}
