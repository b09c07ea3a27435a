package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// labelsKey has which labels workers had within a week, poolsKey the placements in use.
	labelsKey = "gb:labels"
	poolsKey  = "gb:pools"
	// PoolsOffer is the name by which workers with labels are told that poolsKey has another placement.
	PoolsOffer = "@"
	// ImagesOffer is the name by which workers are told that Podman's store has another image, which they would see within a minute.
	ImagesOffer = "+"
	// poolsLife is how long poolsKey holds that no sweeper has renewed.
	poolsLife = time.Minute
)

// Kind is what workers with the same labels have in common.
func (w Slots) Kind() string { return w.Labels.String() + " " + strings.Join(w.Only, ",") }

// PublishLabels says which labels this worker has. What no worker has said for a week is forgotten.
func (f *Fleet) PublishLabels(ctx context.Context, labels job.Labels, only []string) error {
	if len(labels) == 0 {
		return nil
	}
	kind := Slots{Labels: labels, Only: only}.Kind()
	all, err := f.published(ctx, labelsKey)
	if err == nil {
		err = f.publish(ctx, labelsKey, kind, f.now().UnixMilli())
	}
	var old []string
	for of, seen := range all {
		if !f.fresh(seen) && of != kind {
			old = append(old, of)
		}
	}
	if err == nil && len(old) > 0 {
		err = f.rdb.HDel(ctx, labelsKey, old...).Err()
	}
	if err != nil {
		return fmt.Errorf("publish labels: %w", err)
	}
	return nil
}

// Kinds lists which labels workers have, or had within a week, each once.
func (f *Fleet) Kinds(ctx context.Context) ([]Slots, error) {
	all, err := f.published(ctx, labelsKey)
	if err != nil {
		return nil, fmt.Errorf("list workers' labels: %w", err)
	}
	var list []Slots
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		if !f.fresh(all[kind]) {
			continue
		}
		w, err := parseSlots("", "0 "+kind)
		if err != nil {
			f.unreadable.PassOver(labelsKey, err)
			continue
		}
		list = append(list, w)
	}
	return list, nil
}

// usedPools is which placements this process has written last.
type usedPools struct {
	mu     sync.Mutex
	placed []string
}

// SetPools says which placements are in use, and how many jobs of each some tenant may have released at once, 0 where no worker serves it. Workers
// are told of new ones.
func (f *Fleet) SetPools(ctx context.Context, pools map[string]int64) error {
	b, err := json.Marshal(pools)
	if err != nil {
		return err
	}
	if err := f.rdb.Set(ctx, poolsKey, b, poolsLife).Err(); err != nil {
		return fmt.Errorf("say which placements are in use: %w", err)
	}
	names := slices.Sorted(maps.Keys(pools))
	f.pools.mu.Lock()
	same := slices.Equal(f.pools.placed, names)
	f.pools.placed = names
	f.pools.mu.Unlock()
	if same {
		return nil
	}
	if _, err := f.Wanted(ctx, PoolsOffer); err != nil {
		return fmt.Errorf("tell workers which placements are in use: %w", err)
	}
	return nil
}

// Pools are the placements in use, as SetPools was told within a minute.
func (f *Fleet) Pools(ctx context.Context) (map[string]int64, error) {
	b, err := f.rdb.Get(ctx, poolsKey).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which placements are in use: %w", err)
	}
	var pools map[string]int64
	if err := json.Unmarshal(b, &pools); err != nil {
		f.unreadable.PassOver(poolsKey, err)
		return nil, nil // the next pass of a sweeper writes it anew
	}
	return pools, nil
}
