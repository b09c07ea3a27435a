package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	// mostPoolsRead is how many are read: a session's is noted by a look and a write, between which another may be.
	mostPoolsRead = 2*mostPools + 1
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

// readPools reads what these tenants want of pools, and forgets pools that nobody has used for long.
func (s *Store) readPools(ctx context.Context, tenants []string, to *poolsRead) error {
	old := s.now().Add(-poolLife)
	answers, err := runEach(ctx, s, readPoolsScript, tenants, func(string) script.Args { return script.Args{"old": old} })
	if err != nil {
		return fmt.Errorf("read the placements of tenants' jobs: %w", err)
	}
	for i, tenant := range tenants {
		w, forget, err := poolWantsOf(tenant, answers[i], ms(old))
		if err != nil {
			to.failed = append(to.failed, tenant)
			to.errs = append(to.errs, fmt.Errorf("read the placements of the jobs of tenant %s: %w", tenant, err))
			continue
		}
		if err := s.forgetPools(ctx, tenant, forget); err != nil {
			return fmt.Errorf("forget pools of tenant %s: %w", tenant, err)
		}
		to.wants = append(to.wants, w)
	}
	return nil
}

// oldPools are pools of a tenant that are to be forgotten, and that are not.
type oldPools struct {
	spoiled, used []string
	lapsed        []string
	before        int64 // ms: what was used last by then has lapsed
}

// poolWantsOf is what readPoolsScript has answered. While any job waits for its time or for approval no pool has lapsed: that job may be for it,
// and nobody looks at it again before it is in the backlog.
func poolWantsOf(tenant string, answer *redis.Cmd, old int64) (w poolWants, forget oldPools, err error) {
	list, err := answer.Slice()
	if err != nil {
		return w, forget, err
	}
	w, forget = poolWants{tenant: tenant, common: wholeNumber(list[1]) > 0}, oldPools{before: old}
	w.written, _ = list[3].(string)
	if text, has := list[0].(string); has { // a tenant without a record has no quotas
		if err := json.Unmarshal([]byte(text), &w.terms); err != nil {
			return w, forget, err
		}
	}
	waits := wholeNumber(list[2]) > 0
	for f := range slices.Chunk(list[4:], 4) {
		p := wantedPool{placement: fmt.Sprint(f[0]), backlogged: wholeNumber(f[2]) > 0, held: wholeNumber(f[3])}
		if p.labels, err = job.ParseLabels(p.placement, job.MaxPlacement); err != nil {
			forget.spoiled = append(forget.spoiled, p.placement)
			continue
		}
		last, _ := strconv.ParseFloat(fmt.Sprint(f[1]), 64) // as Redis has written it
		switch {
		case waits || p.backlogged || p.held > 0:
			forget.used = append(forget.used, p.placement)
		case last <= float64(old):
			forget.lapsed = append(forget.lapsed, p.placement)
			continue
		}
		w.pools = append(w.pools, p)
	}
	return w, forget, nil
}

// turnField is where the key line says which priority's turn it is in that pool.
func turnField(placement string) string { return "turn@" + placement }

// forgetPools forgets what is spoiled, and, if any has lapsed, all that is not used and as old. A pool that has got a job since is
// not: that job has noted it anew. The priorities of one that has lapsed begin their turns anew.
func (s *Store) forgetPools(ctx context.Context, tenant string, old oldPools) error {
	for _, placement := range old.spoiled {
		if err := s.rdb.ZRem(ctx, poolsKey(tenant), placement).Err(); err != nil {
			return err
		}
	}
	if len(old.lapsed) == 0 {
		return nil
	}
	var used []redis.Z
	for _, placement := range old.used {
		used = append(used, redis.Z{Score: float64(ms(s.now())), Member: placement})
	}
	if len(used) > 0 {
		if err := s.rdb.ZAddArgs(ctx, poolsKey(tenant), redis.ZAddArgs{XX: true, GT: true, Members: used}).Err(); err != nil {
			return err
		}
	}
	var turns []string
	for _, placement := range old.lapsed {
		turns = append(turns, turnField(placement))
	}
	if err := s.rdb.HDel(ctx, lineKey(tenant), turns...).Err(); err != nil && !redisconn.WrongType(err) {
		return err
	}
	return s.rdb.ZRemRangeByScore(ctx, poolsKey(tenant), "-inf", strconv.FormatInt(old.before, 10)).Err()
}

// writeWindows writes what scripts go by that release jobs of these tenants, where that is not what is there already for a while. Without a
// sweeper it lapses, and no job with a placement is released.
func (s *Store) writeWindows(ctx context.Context, wants []poolWants, windows []poolWindows) error {
	if err := setWindowsScript.Load(ctx, s.rdb); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	pipe := s.rdb.Pipeline()
	for i, w := range wants {
		fields := w.windowFields(windows[i])
		if made := nameOf(fields); made != w.written {
			setWindowsScript.Pipe(ctx, pipe, w.tenant, script.Args{"life": shareLife, "made": made}, fields...)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("share out pools: %w", err)
	}
	return nil
}

// nameOf is a name for what the key windows has, "" where it isn't there.
func nameOf(fields []any) string {
	if len(fields) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(fmt.Sprintln(fields...))) // it puts a space between any two
	return hex.EncodeToString(sum[:8])
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
