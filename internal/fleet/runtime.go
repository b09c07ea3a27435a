package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// A runtime that no worker has published for this long is no longer offered.
const runtimeTTL = 7 * 24 * time.Hour

// Runtime is a language image as workers publish it and GET /v1/runtimes shows it.
type Runtime struct {
	Name        string     `json:"name"`
	Version     string     `json:"version"`
	Aliases     []string   `json:"aliases"`
	File        string     `json:"file"`
	Image       string     `json:"image"`
	ImageDigest string     `json:"image_digest"`
	Limits      job.Limits `json:"limits"`
	// Isolation is what its jobs are isolated by, where that is less than gVisor; "" is gVisor.
	Isolation job.Isolation `json:"isolation,omitempty"`
	// Compiles says that it has a compile step.
	Compiles bool `json:"compiles,omitempty"`
	// Sessions says that the runtime has them.
	Sessions bool `json:"sessions,omitempty"`
	// Languages are those that contexts of its sessions can have, its own first.
	Languages []string `json:"languages,omitempty"`
	// Warm is how many sandboxes of it wait started.
	Warm   int       `json:"warm"`
	SeenAt time.Time `json:"seen_at"`
}

// PublishRuntimes says which runtimes this worker runs.
func (f *Fleet) PublishRuntimes(ctx context.Context, runtimes []Runtime) error {
	fields := make([]any, 0, 2*len(runtimes))
	for _, r := range runtimes {
		r.SeenAt = f.now().UTC()
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fields = append(fields, OfferName(r.Name, r.Isolation), b)
	}
	if len(fields) == 0 {
		return nil
	}
	if err := f.publish(ctx, runtimesKey, fields...); err != nil {
		return fmt.Errorf("publish runtimes: %w", err)
	}
	f.recent.mu.Lock()
	f.recent.read = time.Time{}
	f.recent.mu.Unlock()
	return nil
}

// WithdrawRuntimes takes back what was published of runtimes in gVisor, until a worker publishes them again.
func (f *Fleet) WithdrawRuntimes(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := f.rdb.HDel(ctx, runtimesKey, names...).Err(); err != nil {
		return fmt.Errorf("withdraw runtimes: %w", err)
	}
	return nil
}

// Runtimes lists what workers published, by name, and one that is there in several isolations once for each.
func (f *Fleet) Runtimes(ctx context.Context) ([]Runtime, error) {
	all, err := f.published(ctx, runtimesKey)
	if err != nil {
		return nil, fmt.Errorf("list runtimes: %w", err)
	}
	list := make([]Runtime, 0, len(all))
	for name, b := range all {
		var r Runtime
		if err := json.Unmarshal([]byte(b), &r); err != nil || OfferName(r.Name, r.Isolation) != name {
			f.unreadable.PassOver(runtimesKey, fmt.Errorf("runtime %.100q is called %.100q: %w", name, r.Name, err))
			continue
		}
		if f.seen(r.SeenAt) && f.now().Sub(r.SeenAt) < runtimeTTL {
			list = append(list, r)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return OfferName(list[i].Name, list[i].Isolation) < OfferName(list[j].Name, list[j].Isolation)
	})
	return list, nil
}

// recentLife is how long a process goes by what it read: some thousand jobs a second then ask Redis once.
const recentLife = time.Second

// recentRuntimes is what was read last.
type recentRuntimes struct {
	mu   sync.Mutex
	list []Runtime
	read time.Time
}

// RecentRuntimes is Runtimes as it was within the last second; none are never remembered.
// The list is everybody's: it is not to be changed.
func (f *Fleet) RecentRuntimes(ctx context.Context) ([]Runtime, error) {
	f.recent.mu.Lock()
	list, fresh := f.recent.list, time.Since(f.recent.read) < recentLife
	f.recent.mu.Unlock()
	if fresh {
		return list, nil
	}
	began := time.Now()
	list, err := f.Runtimes(ctx)
	if err == nil && len(list) > 0 {
		f.recent.mu.Lock()
		f.recent.list, f.recent.read = list, began
		f.recent.mu.Unlock()
	}
	return list, err
}
