package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// BeatInterval is how often a worker says that it lives, workerTTL how long that holds.
	BeatInterval = 5 * time.Second
	workerTTL    = 15 * time.Second
)

// Worker is what a worker says of itself with each beat.
type Worker struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Labels are what its operator says that it is, and Only the keys of those that a job has to name to run there.
	Labels job.Labels `json:"labels,omitempty"`
	Only   []string   `json:"only,omitempty"`
	// Concurrency is how many jobs it runs at once.
	Concurrency int `json:"concurrency"`
	// Jobs are the ids that it runs; the reaper takes back what it does not name.
	Jobs []string `json:"jobs"`
	// Warm is how many started sandboxes wait, by runtime.
	Warm map[string]int `json:"warm,omitempty"`
	// WarmRoom is how many could wait, by runtime, if an operator asked for them.
	WarmRoom map[string]int `json:"warm_room,omitempty"`
	// Paused is why it takes no jobs, "" when it does.
	Paused string `json:"paused,omitempty"`
	// Drained says that its operator has told it to take none.
	Drained bool `json:"drained,omitempty"`
}

// Beat says that the worker lives, for 15 seconds.
func (f *Fleet) Beat(ctx context.Context, w Worker) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	pipe := f.rdb.Pipeline()
	pipe.Set(ctx, workerKey(w.ID), b, workerTTL)
	switch {
	case w.Drained: // it is about to go, so nobody waits for it
		pipe.HDel(ctx, slotsKey, w.ID)
	case w.Paused != "":
		pipe.HSet(ctx, slotsKey, w.ID, slotsText(0, w.Labels, w.Only))
	default:
		pipe.HSet(ctx, slotsKey, w.ID, slotsText(max(w.Concurrency, 0), w.Labels, w.Only))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}

// Leave says that the worker is gone for good, so that nobody waits for its key to lapse.
func (f *Fleet) Leave(ctx context.Context, worker string) error {
	pipe := f.rdb.Pipeline()
	pipe.Del(ctx, workerKey(worker))
	pipe.HDel(ctx, slotsKey, worker)
	_, err := pipe.Exec(ctx)
	return err
}

// Worker returns what the worker said last, and false when its key has lapsed.
func (f *Fleet) Worker(ctx context.Context, id string) (Worker, bool, error) {
	return parseWorker(id, f.rdb.Get(ctx, workerKey(id)))
}

func parseWorker(id string, answer *redis.StringCmd) (Worker, bool, error) {
	b, err := answer.Bytes()
	if errors.Is(err, redis.Nil) {
		return Worker{}, false, nil
	}
	if err != nil {
		return Worker{}, false, fmt.Errorf("read worker: %w", err)
	}
	var w Worker
	if err := json.Unmarshal(b, &w); err != nil {
		return Worker{}, false, fmt.Errorf("read worker %s: %w", id, err)
	}
	return w, true, nil
}

// Workers returns what these workers said last, each once: the zero Worker for one whose key has
// lapsed. One whose beat can't be read is left out, and in errs.
func (f *Fleet) Workers(ctx context.Context, ids []string) (workers map[string]Worker, errs []error, err error) {
	workers = make(map[string]Worker, len(ids))
	for some := range slices.Chunk(ids, redisconn.AtOnce) {
		answers, err := redisconn.Ask(ctx, f.rdb, some, func(pipe redis.Pipeliner, worker string) *redis.StringCmd {
			return pipe.Get(ctx, workerKey(worker))
		})
		if err != nil {
			return nil, nil, fmt.Errorf("read workers: %w", err)
		}
		for i, a := range answers {
			w, _, err := parseWorker(some[i], a)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			workers[some[i]] = w
		}
	}
	return workers, errs, nil
}
