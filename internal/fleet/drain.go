package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// drainedKey has the workers that an operator has told to take no jobs, and when, in ms.
const drainedKey = "gb:drained"

// drainedLife is how long that holds at least for one that doesn't live: it may only be cut off from Redis.
const drainedLife = 24 * time.Hour

// Drained reports whether an operator has told the worker to take no jobs.
func (f *Fleet) Drained(ctx context.Context, worker string) (bool, error) {
	drained, err := f.rdb.HExists(ctx, drainedKey, worker).Result()
	if err != nil {
		return false, fmt.Errorf("read whether the worker is drained: %w", err)
	}
	return drained, nil
}

// Listed is a worker as an operator sees it. It is Drained from when it is told so, which it obeys within a beat.
type Listed struct {
	Worker
	// Beat is how long ago it said that it lives.
	Beat time.Duration
}

// List returns the workers that live, by id. It looks through all keys, which only the operator may.
func List(ctx context.Context, rdb *redis.Client) (list []Listed, unreadable []error, err error) {
	drained, err := rdb.HGetAll(ctx, drainedKey).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("read which workers are drained: %w", err)
	}
	keys := map[string]bool{} // a scan may name one twice
	for scan := rdb.Scan(ctx, 0, workerKey("*"), 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			if err := scan.Err(); err != nil {
				return nil, nil, fmt.Errorf("list workers: %w", err)
			}
			break
		}
		keys[scan.Val()] = true
	}
	for key := range keys {
		id := strings.TrimPrefix(key, workerKey(""))
		pipe := rdb.Pipeline()
		said, left := pipe.Get(ctx, key), pipe.PTTL(ctx, key)
		_, _ = pipe.Exec(ctx) // each has its error
		w, lives, err := parseWorker(id, said)
		if err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		if lives {
			w.ID = id // whatever it says
			_, w.Drained = drained[id]
			list = append(list, Listed{w, max(workerTTL-left.Val(), 0)})
		}
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return list, unreadable, nil
}

// Drain has a worker take no jobs, until Resume or its end: one that starts again has another id. living
// are those that List returned; what was noted of others a day ago is forgotten.
func Drain(ctx context.Context, rdb *redis.Client, worker string, living []Listed) error {
	noted, err := rdb.HGetAll(ctx, drainedKey).Result()
	if err != nil {
		return fmt.Errorf("drain worker: %w", err)
	}
	old := time.Now().Add(-drainedLife).UnixMilli()
	for id, at := range noted {
		since, err := strconv.ParseInt(at, 10, 64)
		if (err != nil || since < old) && !slices.ContainsFunc(living, func(l Listed) bool { return l.ID == id }) {
			if err := rdb.HDel(ctx, drainedKey, id).Err(); err != nil {
				return fmt.Errorf("drain worker: %w", err)
			}
		}
	}
	if err := rdb.HSet(ctx, drainedKey, worker, time.Now().UnixMilli()).Err(); err != nil {
		return fmt.Errorf("drain worker: %w", err)
	}
	return nil
}

// Resume has a worker take jobs again.
func Resume(ctx context.Context, rdb *redis.Client, worker string) error {
	if err := rdb.HDel(ctx, drainedKey, worker).Err(); err != nil {
		return fmt.Errorf("resume worker: %w", err)
	}
	return nil
}
