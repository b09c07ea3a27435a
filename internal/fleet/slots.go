package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// slotsLife is how long all processes go by what one of them counted.
	slotsLife = 2 * time.Second
	// mostSlots is more than any fleet has. What is beyond was not counted by us.
	mostSlots = 1_000_000
)

// ReadSlots reads in the pipeline how many jobs all workers together run at once that take any job. A worker that is
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

// countSlots counts those that take any job: not those of workers that are kept for some.
func (f *Fleet) countSlots(ctx context.Context) (total int64, err error) {
	living, err := f.Living(ctx)
	return SlotsFor(living, nil), err
}

// Slots is how many jobs a worker that lives runs at once, and which.
type Slots struct {
	Worker string
	// Slots is 0 while it is paused.
	Slots  int64
	Labels job.Labels
	// Only are the keys of labels that a job has to name to run there.
	Only []string
}

// Serves reports whether jobs of that placement run there.
func (w Slots) Serves(placement job.Labels) bool { return w.Labels.Serves(placement, w.Only) }

// SlotsFor is how many jobs of that placement those workers run at once.
func SlotsFor(workers []Slots, placement job.Labels) (total int64) {
	for _, w := range workers {
		if w.Serves(placement) {
			total = min(total+w.Slots, mostSlots)
		}
	}
	return total
}

// slotsText is what a worker says of its slots: their number, and where it has labels its kind.
func slotsText(slots int, labels job.Labels, only []string) string {
	return strings.TrimRight(strconv.Itoa(slots)+" "+Slots{Labels: labels, Only: only}.Kind(), " ")
}

// parseSlots reads it.
func parseSlots(worker, text string) (Slots, error) {
	w := Slots{Worker: worker}
	words := strings.SplitN(text, " ", 3)
	var err error
	if w.Slots, err = strconv.ParseInt(words[0], 10, 64); err != nil || w.Slots < 0 || w.Slots > mostSlots {
		return w, fmt.Errorf("worker %.100q has %.20q slots", worker, words[0])
	}
	if len(words) > 1 {
		w.Labels, err = job.ParseLabels(words[1], job.MaxLabels)
	}
	if err == nil && len(words) > 2 {
		w.Only, err = job.ParseLabelKeys(words[2])
	}
	if err != nil {
		return w, fmt.Errorf("worker %.100q has labels that are none: %w", worker, err)
	}
	return w, nil
}

// Living is how many jobs each worker runs at once whose beat has not lapsed, and which: a paused one 0.
func (f *Fleet) Living(ctx context.Context) ([]Slots, error) {
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
	living := make([]Slots, 0, len(said))
	for _, worker := range slices.Sorted(maps.Keys(said)) {
		if slices.Contains(gone, worker) {
			continue
		}
		w, err := parseSlots(worker, said[worker])
		if err != nil {
			f.unreadable.PassOver(slotsKey, err)
			continue
		}
		living = append(living, w)
	}
	if len(gone) > 0 { // one that beats at this moment says it again with its next beat
		err = f.rdb.HDel(ctx, slotsKey, gone...).Err()
	}
	return living, err
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
