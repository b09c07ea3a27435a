package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

const (
	// slotsLife is how long all processes go by what one of them counted.
	slotsLife = 2 * time.Second
	// mostSlots is more than any fleet has. What is beyond was not counted by us.
	mostSlots = 1_000_000
)

// ReadSlots reads in the pipeline how many jobs all workers together run at once. A worker that is
// paused, or has not beaten for 15 s, runs none. slots returns it once there is an answer: as somebody
// counted it within slotsLife, or it counts.
func (f *Fleet) ReadSlots(ctx context.Context, pipe redis.Pipeliner) (slots func() (int64, error)) {
	total, left := pipe.Get(ctx, slotsTotalKey), pipe.PTTL(ctx, slotsTotalKey)
	return func() (int64, error) {
		slots, counted := countedSlots(total, left)
		if counted {
			return slots, nil
		}
		slots, err := f.countSlots(ctx) // every worker asks: one of them counts
		if err == nil {
			err = f.rdb.Set(ctx, slotsTotalKey, slots, slotsLife).Err()
		}
		if err != nil {
			return 0, fmt.Errorf("count the fleet's slots: %w", err)
		}
		return slots, nil
	}
}

// countedSlots is the sum that some process counted; not what none of ours can have written: it would
// hold for longer than slotsLife, or release nothing, or everything.
func countedSlots(total *redis.StringCmd, left *redis.DurationCmd) (slots int64, ok bool) {
	slots, err := total.Int64()
	ok = err == nil && left.Err() == nil && left.Val() > 0 && left.Val() <= slotsLife
	return slots, ok && slots >= 0 && slots <= mostSlots
}

func (f *Fleet) countSlots(ctx context.Context) (total int64, err error) {
	slots, err := f.livingSlots(ctx)
	for _, of := range slots {
		total = min(total+of, mostSlots)
	}
	return total, err
}

// Count counts the workers that take jobs, and those that live and are paused.
func (f *Fleet) Count(ctx context.Context) (taking, paused int, err error) {
	slots, err := f.livingSlots(ctx)
	for _, of := range slots {
		if of > 0 {
			taking++
		} else {
			paused++
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count workers: %w", err)
	}
	return taking, paused, nil
}

// livingSlots is how many jobs each worker runs at once whose beat has not lapsed: a paused one 0.
func (f *Fleet) livingSlots(ctx context.Context) (map[string]int64, error) {
	said, err := f.rdb.HGetAll(ctx, slotsKey).Result()
	if redisconn.WrongType(err) { // every worker says it again with its next beat
		f.unreadable.PassOver(slotsKey, err)
		return nil, f.rdb.Del(ctx, slotsKey).Err()
	}
	if err != nil || len(said) == 0 {
		return nil, err
	}
	gone, err := f.gone(ctx, slices.Collect(maps.Keys(said)))
	if err != nil {
		return nil, err
	}
	slots := map[string]int64{}
	for worker, n := range said {
		if slices.Contains(gone, worker) {
			continue
		}
		of, err := strconv.ParseInt(n, 10, 64)
		if err != nil || of < 0 || of > mostSlots {
			f.unreadable.PassOver(slotsKey, fmt.Errorf("worker %.100q has %.20q slots", worker, n))
			continue
		}
		slots[worker] = of
	}
	if len(gone) > 0 { // one that beats at this moment says it again with its next beat
		err = f.rdb.HDel(ctx, slotsKey, gone...).Err()
	}
	return slots, err
}

// gone lists those of the workers whose beat has lapsed. It is one command where none has: all processes ask, so
// what each worker costs here is counted by the square of their number.
func (f *Fleet) gone(ctx context.Context, workers []string) (gone []string, err error) {
	keys := make([]string, len(workers))
	for i, worker := range workers {
		keys[i] = workerKey(worker)
	}
	there, err := f.rdb.Exists(ctx, keys...).Result()
	if err != nil || there == int64(len(workers)) {
		return nil, err
	}
	pipe := f.rdb.Pipeline()
	living := make([]*redis.IntCmd, len(workers))
	for i := range keys {
		living[i] = pipe.Exists(ctx, keys[i])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, worker := range workers {
		if living[i].Val() == 0 {
			gone = append(gone, worker)
		}
	}
	return gone, nil
}
