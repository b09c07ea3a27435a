package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// BeatInterval is how often a worker says that it lives, workerTTL how long that holds.
	BeatInterval = 5 * time.Second
	workerTTL    = 15 * time.Second
	// A runtime that no worker has published for this long is no longer offered.
	runtimeTTL = 7 * 24 * time.Hour
)

// Worker is what a worker says of itself with each beat.
type Worker struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Concurrency is how many jobs it runs at once.
	Concurrency int `json:"concurrency"`
	// Jobs are the ids that it runs; the reaper takes back what it does not name.
	Jobs []string `json:"jobs"`
	// Paused is why it takes no jobs, "" when it does.
	Paused string `json:"paused,omitempty"`
}

// Beat says that the worker lives, for 15 seconds.
func (s *Store) Beat(ctx context.Context, w Worker) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	pipe := s.rdb.Pipeline()
	pipe.Set(ctx, workerKey(w.ID), b, workerTTL)
	if w.Paused == "" && w.Concurrency > 0 {
		pipe.HSet(ctx, slotsKey, w.ID, w.Concurrency)
	} else {
		pipe.HDel(ctx, slotsKey, w.ID)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}

// Leave says that the worker is gone for good, so that nobody waits for its key to lapse.
func (s *Store) Leave(ctx context.Context, worker string) error {
	pipe := s.rdb.Pipeline()
	pipe.Del(ctx, workerKey(worker))
	pipe.HDel(ctx, slotsKey, worker)
	_, err := pipe.Exec(ctx)
	return err
}

// Worker returns what the worker said last, and false when its key has lapsed.
func (s *Store) Worker(ctx context.Context, id string) (Worker, bool, error) {
	return parseWorker(id, s.rdb.Get(ctx, workerKey(id)))
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

// Runtime is a language image as workers publish it and GET /v1/runtimes shows it.
type Runtime struct {
	Name        string     `json:"name"`
	Version     string     `json:"version"`
	Aliases     []string   `json:"aliases"`
	File        string     `json:"file"`
	Image       string     `json:"image"`
	ImageDigest string     `json:"image_digest"`
	Limits      job.Limits `json:"limits"`
	// Warm is how many sandboxes of it wait started.
	Warm   int       `json:"warm"`
	SeenAt time.Time `json:"seen_at"`
}

// PublishRuntimes says which runtimes this worker runs.
func (s *Store) PublishRuntimes(ctx context.Context, runtimes []Runtime) error {
	fields := make([]any, 0, 2*len(runtimes))
	for _, r := range runtimes {
		r.SeenAt = s.now().UTC()
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fields = append(fields, r.Name, b)
	}
	if len(fields) == 0 {
		return nil
	}
	if err := s.publish(ctx, runtimesKey, fields...); err != nil {
		return fmt.Errorf("publish runtimes: %w", err)
	}
	s.recent.mu.Lock()
	s.recent.read = time.Time{}
	s.recent.mu.Unlock()
	return nil
}

// Runtimes lists what workers published, by name.
func (s *Store) Runtimes(ctx context.Context) ([]Runtime, error) {
	f, err := s.published(ctx, runtimesKey)
	if err != nil {
		return nil, fmt.Errorf("list runtimes: %w", err)
	}
	list := make([]Runtime, 0, len(f))
	for name, b := range f {
		var r Runtime
		if err := json.Unmarshal([]byte(b), &r); err != nil || r.Name != name {
			s.unreadable.PassOver(runtimesKey, fmt.Errorf("runtime %.100q is called %.100q: %w", name, r.Name, err))
			continue
		}
		if s.seen(r.SeenAt) && s.now().Sub(r.SeenAt) < runtimeTTL {
			list = append(list, r)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}
