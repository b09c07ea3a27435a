package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// warmKey has how many sandboxes of each runtime an operator has asked for, to wait for jobs to come.
const warmKey = "gb:warm"

// MostAsked is how many may be asked for, and LongestAsked for how long.
const (
	MostAsked    = 10_000
	LongestAsked = 24 * time.Hour
)

// Asked is how many sandboxes of a runtime all workers together are to have waiting.
type Asked struct {
	Runtime string `json:"-"`
	Count   int    `json:"count"`
	// Since is when that was asked, Until when it ends, ms.
	Since int64 `json:"since"`
	Until int64 `json:"until"`
}

// check fails for what no operator can have asked by now.
func (a Asked) check(now time.Time) error {
	if a.Count < 1 || a.Count > MostAsked || a.Since < 0 || a.Until <= a.Since || a.Until-a.Since > LongestAsked.Milliseconds() {
		return fmt.Errorf("runtime %.100q: %d sandboxes from %d to %d, ms: want 1 to %d for up to %s", a.Runtime, a.Count, a.Since, a.Until, MostAsked, LongestAsked)
	}
	if a.Since > now.Add(mostAhead).UnixMilli() {
		return fmt.Errorf("runtime %.100q: asked at %d, ms, which is more than %s ahead", a.Runtime, a.Since, mostAhead)
	}
	return nil
}

// Share is how many of those a worker is to have that runs so many of all jobs that can run at once.
func (a Asked) Share(slots, all int64) int {
	slots, all = max(slots, 0), max(all, slots, 1)
	return int((int64(a.Count)*slots + all - 1) / all)
}

// Asked lists what operators have asked for and holds, as who asked first is served first.
func (f *Fleet) Asked(ctx context.Context) ([]Asked, error) {
	list, unreadable, err := listAsked(ctx, f.rdb, f.now())
	for _, why := range unreadable {
		f.unreadable.PassOver(warmKey, why)
	}
	return list, err
}

// ListAsked is Asked for the operator.
func ListAsked(ctx context.Context, rdb *redis.Client) (list []Asked, unreadable []error, err error) {
	return listAsked(ctx, rdb, time.Now())
}

func listAsked(ctx context.Context, rdb *redis.Client, now time.Time) (list []Asked, unreadable []error, err error) {
	said, err := rdb.HGetAll(ctx, warmKey).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("read what is to be warm: %w", err)
	}
	for _, runtime := range slices.Sorted(maps.Keys(said)) {
		a := Asked{Runtime: runtime}
		if err := cmp.Or(json.Unmarshal([]byte(said[runtime]), &a), a.check(now)); err != nil {
			unreadable = append(unreadable, fmt.Errorf("read what is to be warm: %w", err))
			continue
		}
		if now.UnixMilli() < a.Until {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b Asked) int { return cmp.Compare(a.Since, b.Since) })
	return list, unreadable, nil
}

// Ask has workers keep so many sandboxes of a runtime waiting for that time, in the place of what was asked of it
// before; 0 takes that back. What is over is forgotten.
func Ask(ctx context.Context, rdb *redis.Client, runtime string, count int, long time.Duration) error {
	now := time.Now()
	a := Asked{Runtime: runtime, Count: count, Since: now.UnixMilli(), Until: now.Add(long).UnixMilli()}
	list, _, err := listAsked(ctx, rdb, now)
	if err != nil {
		return err
	}
	said, err := rdb.HKeys(ctx, warmKey).Result()
	if err != nil {
		return fmt.Errorf("ask for warm sandboxes: %w", err)
	}
	pipe := rdb.TxPipeline()
	for _, of := range said {
		holds := slices.ContainsFunc(list, func(a Asked) bool { return a.Runtime == of })
		if !holds || of == runtime && count == 0 {
			pipe.HDel(ctx, warmKey, of)
		}
	}
	if count != 0 {
		if err := a.check(now); err != nil {
			return fmt.Errorf("ask for warm sandboxes: %w", err)
		}
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		pipe.HSet(ctx, warmKey, runtime, b)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("ask for warm sandboxes: %w", err)
	}
	return nil
}

// Slots is how many jobs all workers together run at once.
func (f *Fleet) Slots(ctx context.Context) (int64, error) {
	pipe := f.rdb.Pipeline()
	slots := f.ReadSlots(ctx, pipe)
	_, _ = pipe.Exec(ctx) // each has its error
	return slots()
}
