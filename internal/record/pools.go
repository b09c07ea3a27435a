package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// mostPools is how many placements the jobs and sessions of a tenant may have within poolLife: each has queues that workers ask.
	mostPools = 16
	// poolLife is how long a placement is known after its last job: until then the next one of it needs no look of the sweeper.
	poolLife = 24 * time.Hour
)

func overPools() error {
	return &job.Error{
		Code:    job.CodeQuotaExceeded,
		Message: fmt.Sprintf("the tenant's jobs have had %d placements within a day, which is the most: use one of those", mostPools),
	}
}

// notePooled says that the tenant has jobs with placements, so that the sweeper looks for them.
func (s *Store) notePooled(ctx context.Context, tenant string) error {
	if err := s.rdb.ZAdd(ctx, pooledKey, redis.Z{Score: float64(ms(s.now())), Member: tenant}).Err(); err != nil {
		return fmt.Errorf("note that the tenant's jobs have placements: %w", err)
	}
	return nil
}

// notePool says that workers of that placement are wanted, where it isn't empty. It fails as Create does.
func (s *Store) notePool(ctx context.Context, tenant string, placement job.Labels) error {
	if len(placement) == 0 {
		return nil
	}
	if err := s.notePooled(ctx, tenant); err != nil {
		return err
	}
	pipe := s.rdb.Pipeline()
	known, has := pipe.ZScore(ctx, poolsKey(tenant), placement.String()), pipe.ZCard(ctx, poolsKey(tenant))
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("read the tenant's placements: %w", err)
	}
	if errors.Is(known.Err(), redis.Nil) && has.Val() >= mostPools {
		return overPools()
	}
	if err := s.rdb.ZAdd(ctx, poolsKey(tenant), redis.Z{Score: float64(ms(s.now())), Member: placement.String()}).Err(); err != nil {
		return fmt.Errorf("note the session's placement: %w", err)
	}
	return nil
}

// shareOutPools gives each tenant that has jobs with placements its windows, says which pools are in use, and returns the list with
// those of these tenants that have a backlog in a pool. Where nobody has a placement it costs one command.
func (s *Store) shareOutPools(ctx context.Context, tenants []string, list []waitingTenant) (_ []waitingTenant, errs []error, err error) {
	pooled, err := s.rdb.ZRange(ctx, pooledKey, 0, -1).Result()
	if redisconn.WrongType(err) {
		err = s.rdb.Del(ctx, pooledKey).Err()
	}
	if err != nil {
		return list, nil, fmt.Errorf("list tenants whose jobs have placements: %w", err)
	}
	pooled = slices.DeleteFunc(pooled, func(t string) bool { return !slices.Contains(tenants, t) })
	if len(pooled) == 0 {
		return list, nil, nil
	}
	workers, err := s.Fleet.Living(ctx)
	if err != nil {
		return list, nil, fmt.Errorf("list workers: %w", err)
	}
	wants := make([]poolWants, 0, len(pooled))
	for some := range slices.Chunk(pooled, redisconn.AtOnce) {
		read, failed, err := s.readPools(ctx, some)
		if errs = append(errs, failed...); err != nil {
			return list, errs, err
		}
		wants = append(wants, read...)
	}
	others := int64(0) // tenants with a backlog, all of whose jobs go anywhere
	for _, t := range list {
		if t.backlogged && !slices.ContainsFunc(wants, func(w poolWants) bool { return w.tenant == t.tenant }) {
			others++
		}
	}
	if err := s.keepPooled(ctx, wants); err != nil {
		return list, errs, err
	}
	windows := sharePools(workers, wants, others)
	if err := s.writeWindows(ctx, wants, windows); err != nil {
		return list, errs, err
	}
	used := map[string]int64{}
	for i, w := range wants {
		waits := false
		for _, p := range w.pools {
			used[p.placement] = max(used[p.placement], windows[i].pools[p.placement])
			waits = waits || p.backlogged || p.held > 0 // what is released where no worker lives any more goes back
		}
		at := slices.IndexFunc(list, func(t waitingTenant) bool { return t.tenant == w.tenant })
		if at < 0 && waits {
			list, at = append(list, waitingTenant{tenant: w.tenant, terms: w.terms}), len(list)
		}
		if at >= 0 {
			list[at].pooled = true
			list[at].held = max(list[at].held-w.held(), 0)
		}
	}
	return list, errs, s.Fleet.SetPools(ctx, used)
}

// readPools reads what these tenants want of pools, and leaves those out of which it can't.
func (s *Store) readPools(ctx context.Context, tenants []string) (wants []poolWants, errs []error, err error) {
	pipe := s.rdb.Pipeline()
	pools, common, terms := make([]*redis.ZSliceCmd, len(tenants)), make([]*redis.IntCmd, len(tenants)), make([]*redis.StringCmd, len(tenants))
	for i, t := range tenants {
		pools[i] = pipe.ZRangeWithScores(ctx, poolsKey(t), 0, 2*mostPools)
		common[i], terms[i] = pipe.Exists(ctx, commonBacklogs(t)...), pipe.HGet(ctx, tenantKey(t), "terms")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, nil, fmt.Errorf("read the placements of tenants' jobs: %w", err)
	}
	for i, tenant := range tenants {
		w := poolWants{tenant: tenant, common: common[i].Val() > 0}
		text, termsErr := terms[i].Bytes()
		if errors.Is(termsErr, redis.Nil) {
			termsErr = nil
		} else if termsErr == nil {
			termsErr = json.Unmarshal(text, &w.terms)
		}
		if err := cmp.Or(pools[i].Err(), termsErr); err != nil {
			errs = append(errs, fmt.Errorf("read the placements of the jobs of tenant %s: %w", tenant, err))
			continue
		}
		if err := s.readPoolsOf(ctx, &w, pools[i].Val()); err != nil {
			return nil, errs, err
		}
		wants = append(wants, w)
	}
	return wants, errs, nil
}

// readPoolsOf reads what a tenant has in each of its pools, and forgets those that nobody has used for long.
func (s *Store) readPoolsOf(ctx context.Context, w *poolWants, entries []redis.Z) error {
	pipe := s.rdb.Pipeline()
	backlogs, held := make([]*redis.IntCmd, len(entries)), make([]*redis.IntCmd, len(entries))
	for i, e := range entries {
		placement, _ := e.Member.(string)
		backlogs[i], held[i] = pipe.Exists(ctx, poolBacklogs(w.tenant, placement)...), pipe.SCard(ctx, placedKey(w.tenant, placement))
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("look at the pools of tenant %s: %w", w.tenant, err)
	}
	old, gone := float64(ms(s.now().Add(-poolLife))), []any{}
	for i, e := range entries {
		p := wantedPool{backlogged: backlogs[i].Val() > 0, held: held[i].Val()}
		p.placement, _ = e.Member.(string)
		var err error
		p.labels, err = job.ParseLabels(p.placement, job.MaxPlacement)
		if err == nil && (p.backlogged || p.held > 0 || e.Score > old) {
			w.pools = append(w.pools, p)
			continue
		}
		gone = append(gone, p.placement)
	}
	if len(gone) > 0 {
		if err := s.rdb.ZRem(ctx, poolsKey(w.tenant), gone...).Err(); err != nil {
			return fmt.Errorf("forget pools of tenant %s: %w", w.tenant, err)
		}
	}
	return nil
}

// writeWindows writes what scripts go by that release jobs of these tenants. Without a sweeper it lapses, and no job with a placement is
// released.
func (s *Store) writeWindows(ctx context.Context, wants []poolWants, windows []poolWindows) error {
	if err := setWindowsScript.Load(ctx, s.rdb); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	pipe := s.rdb.Pipeline()
	for i, w := range wants {
		var fields []any
		if len(w.pools) > 0 {
			fields = []any{"common", windows[i].common, "at_once", w.terms.Quotas.RunningAtOnce}
		}
		for _, p := range w.pools {
			fields = append(fields, p.placement, windows[i].pools[p.placement])
		}
		setWindowsScript.Pipe(ctx, pipe, w.tenant, script.Args{"life": shareLife}, fields...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	return nil
}

// keepPooled goes on looking after these tenants, and forgets those that have had no placement for long. Whoever is about to create a job has
// just noted its tenant.
func (s *Store) keepPooled(ctx context.Context, wants []poolWants) error {
	now := s.now()
	var used []redis.Z
	for _, w := range wants {
		if len(w.pools) > 0 {
			used = append(used, redis.Z{Score: float64(ms(now)), Member: w.tenant})
		}
	}
	if len(used) == len(wants) { // nobody is to be forgotten
		return nil
	}
	var err error
	if len(used) > 0 {
		err = s.rdb.ZAdd(ctx, pooledKey, used...).Err()
	}
	if err == nil {
		err = s.rdb.ZRemRangeByScore(ctx, pooledKey, "-inf", strconv.FormatInt(ms(now.Add(-poolLife)), 10)).Err()
	}
	if err != nil {
		return fmt.Errorf("forget tenants whose jobs have no placement any more: %w", err)
	}
	return nil
}
