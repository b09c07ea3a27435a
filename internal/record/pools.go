package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// mostPools is how many placements the jobs and sessions of a tenant may have within poolLife: each has queues that workers ask.
	mostPools = 16
	// poolLife is how long a placement is known after its last job: until then the next one of it needs no look of the sweeper. As long as jobs of
	// the tenant wait for their time or for approval it is known, too.
	poolLife = 24 * time.Hour
)

func overPools() error {
	return &job.Error{
		Code:    job.CodeQuotaExceeded,
		Message: fmt.Sprintf("the tenant's jobs have had %d placements within a day, or wait for later with them, which is the most: use one of those", mostPools),
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
// those of these tenants, which are sorted, that have a backlog in a pool. Where nobody has a placement it costs one command.
func (s *Store) shareOutPools(ctx context.Context, tenants []string, list []waitingTenant) (_ []waitingTenant, errs []error, err error) {
	pooled, err := s.rdb.ZRange(ctx, pooledKey, 0, -1).Result()
	if redisconn.WrongType(err) {
		err = s.rdb.Del(ctx, pooledKey).Err()
	}
	if err != nil {
		return list, nil, fmt.Errorf("list tenants whose jobs have placements: %w", err)
	}
	pooled = slices.DeleteFunc(pooled, func(t string) bool { return !contains(tenants, t) })
	if len(pooled) == 0 {
		return list, nil, nil
	}
	workers, err := s.Fleet.Living(ctx)
	if err != nil {
		return list, nil, fmt.Errorf("list workers: %w", err)
	}
	var read poolsRead
	for some := range slices.Chunk(pooled, redisconn.AtOnce) {
		if err := s.readPools(ctx, some, &read); err != nil {
			return list, read.errs, err
		}
	}
	wants, errs := read.wants, read.errs
	places := make(map[string]int, len(list)) // of tenants in list
	others := int64(0)                        // tenants with a backlog, all of whose jobs go anywhere
	for i, t := range list {
		places[t.tenant] = i
		if t.backlogged {
			others++
		}
	}
	for _, w := range wants {
		if i, listed := places[w.tenant]; listed && list[i].backlogged {
			others--
		}
	}
	if err := s.keepPooled(ctx, wants, read.failed); err != nil {
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
		at, listed := places[w.tenant]
		if !listed && waits {
			list, at, listed = append(list, waitingTenant{tenant: w.tenant, terms: w.terms}), len(list), true
		}
		if listed {
			list[at].pooled = true
			list[at].held = max(list[at].held-w.held(), 0)
		}
	}
	return list, errs, s.Fleet.SetPools(ctx, used)
}

// poolsRead is what is known of tenants that have jobs with placements.
type poolsRead struct {
	wants []poolWants
	// failed are tenants of which it can't be read, each with one of errs.
	failed []string
	errs   []error
}

// readPools reads what these tenants want of pools.
func (s *Store) readPools(ctx context.Context, tenants []string, to *poolsRead) error {
	pipe := s.rdb.Pipeline()
	pools, common, terms := make([]*redis.ZSliceCmd, len(tenants)), make([]*redis.IntCmd, len(tenants)), make([]*redis.StringCmd, len(tenants))
	for i, t := range tenants {
		pools[i] = pipe.ZRangeWithScores(ctx, poolsKey(t), 0, 2*mostPools)
		common[i], terms[i] = pipe.Exists(ctx, commonBacklogs(t)...), pipe.HGet(ctx, tenantKey(t), "terms")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("read the placements of tenants' jobs: %w", err)
	}
	lists := make([]poolList, 0, len(tenants))
	for i, tenant := range tenants {
		l := poolList{wants: poolWants{tenant: tenant, common: common[i].Val() > 0}, entries: pools[i].Val()}
		text, termsErr := terms[i].Bytes()
		if errors.Is(termsErr, redis.Nil) {
			termsErr = nil
		} else if termsErr == nil {
			termsErr = json.Unmarshal(text, &l.wants.terms)
		}
		if err := cmp.Or(pools[i].Err(), termsErr); err != nil {
			to.failed = append(to.failed, tenant)
			to.errs = append(to.errs, fmt.Errorf("read the placements of the jobs of tenant %s: %w", tenant, err))
			continue
		}
		lists = append(lists, l)
	}
	for some := range slices.Chunk(lists, poolListsAtOnce) {
		if err := s.readPoolLists(ctx, some); err != nil {
			return err
		}
	}
	for _, l := range lists {
		to.wants = append(to.wants, l.wants)
	}
	return nil
}

// poolListsAtOnce is of how many tenants readPoolLists makes one pipeline: some 1,000 commands.
const poolListsAtOnce = redisconn.AtOnce / mostPools

// poolList is what a tenant's key pools has, and what becomes of it.
type poolList struct {
	entries []redis.Z
	wants   poolWants
}

// readPoolLists reads what tenants have in each of their pools, and forgets those that nobody has used for long. While any job waits for its time
// or for approval it forgets none: that job may be for the pool, and nobody looks at it again before it is in the backlog.
func (s *Store) readPoolLists(ctx context.Context, lists []poolList) error {
	type counts struct{ backlogs, held *redis.IntCmd }
	pipe := s.rdb.Pipeline()
	pools, waiting := make([][]counts, len(lists)), make([][]*redis.IntCmd, len(lists))
	for i, l := range lists {
		tenant := l.wants.tenant
		waiting[i] = []*redis.IntCmd{pipe.ZCard(ctx, laterKey(tenant)), pipe.ZCard(ctx, approvalsKey(tenant))}
		for _, e := range l.entries {
			placement, _ := e.Member.(string)
			pools[i] = append(pools[i], counts{pipe.Exists(ctx, poolBacklogs(tenant, placement)...), pipe.SCard(ctx, placedKey(tenant, placement))})
		}
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("look at the pools of tenants: %w", err)
	}
	now := s.now()
	old := ms(now.Add(-poolLife))
	for i := range lists {
		w := &lists[i].wants
		// What a worker has spoiled may be anything.
		waits := slices.ContainsFunc(waiting[i], func(n *redis.IntCmd) bool { return n.Val() > 0 || n.Err() != nil })
		lapsed, used, spoiled := []string{}, []redis.Z{}, []any{}
		for k, e := range lists[i].entries {
			p := wantedPool{backlogged: pools[i][k].backlogs.Val() > 0, held: pools[i][k].held.Val()}
			p.placement, _ = e.Member.(string)
			var err error
			switch p.labels, err = job.ParseLabels(p.placement, job.MaxPlacement); {
			case err != nil:
				spoiled = append(spoiled, p.placement)
				continue
			case waits || p.backlogged || p.held > 0:
				used = append(used, redis.Z{Score: float64(ms(now)), Member: p.placement})
			case e.Score <= float64(old):
				lapsed = append(lapsed, turnField(p.placement))
				continue
			}
			w.pools = append(w.pools, p)
		}
		if err := s.forgetPools(ctx, w.tenant, lapsed, used, spoiled, old); err != nil {
			return fmt.Errorf("forget pools of tenant %s: %w", w.tenant, err)
		}
	}
	return nil
}

// turnField is where the key line says which priority's turn it is in that pool.
func turnField(placement string) string { return "turn@" + placement }

// forgetPools forgets what is spoiled, and, if any has lapsed, all that is not used and as old as that (ms). A pool that has got a job since is
// not: that job has noted it anew. Its priorities begin their turns anew, as those of which lapsed has the [turnField]s.
func (s *Store) forgetPools(ctx context.Context, tenant string, lapsed []string, used []redis.Z, spoiled []any, old int64) error {
	if len(spoiled) > 0 {
		if err := s.rdb.ZRem(ctx, poolsKey(tenant), spoiled...).Err(); err != nil {
			return err
		}
	}
	if len(lapsed) == 0 {
		return nil
	}
	if len(used) > 0 {
		if err := s.rdb.ZAddArgs(ctx, poolsKey(tenant), redis.ZAddArgs{XX: true, GT: true, Members: used}).Err(); err != nil {
			return err
		}
	}
	if err := s.rdb.HDel(ctx, lineKey(tenant), lapsed...).Err(); err != nil && !redisconn.WrongType(err) {
		return err
	}
	return s.rdb.ZRemRangeByScore(ctx, poolsKey(tenant), "-inf", strconv.FormatInt(old, 10)).Err()
}

// writeWindows writes what scripts go by that release jobs of these tenants. Without a sweeper it lapses, and no job with a placement is
// released.
func (s *Store) writeWindows(ctx context.Context, wants []poolWants, windows []poolWindows) error {
	if err := setWindowsScript.Load(ctx, s.rdb); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	pipe := s.rdb.Pipeline()
	for i, w := range wants {
		fields := w.windowFields(windows[i])
		setWindowsScript.Pipe(ctx, pipe, w.tenant, script.Args{"life": shareLife}, fields...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	return nil
}

// windowFields are what the key windows has: nothing where the tenant has no pools.
func (w poolWants) windowFields(windows poolWindows) (fields []any) {
	if len(w.pools) == 0 {
		return nil
	}
	fields = []any{"common", windows.common, "at_once", w.terms.Quotas.RunningAtOnce}
	for _, p := range w.pools {
		fields = append(fields, p.placement, windows.pools[p.placement])
	}
	of := map[string][]string{} // placement → the numbers of its bounds
	for i, b := range windows.bounds {
		number := strconv.Itoa(i + 1)
		fields = append(fields, "bound:"+number, b.most)
		for _, placement := range b.placements {
			of[placement] = append(of[placement], number)
		}
	}
	for _, placement := range slices.Sorted(maps.Keys(of)) {
		fields = append(fields, "bounds:"+placement, strings.Join(of[placement], " "))
	}
	return fields
}

// keepPooled goes on looking after these tenants, and those of which it can't be read what they want, and forgets others that have had no
// placement for long. Whoever is about to create a job has just noted its tenant.
func (s *Store) keepPooled(ctx context.Context, wants []poolWants, failed []string) error {
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
	for _, tenant := range failed {
		used = append(used, redis.Z{Score: float64(ms(now)), Member: tenant})
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
