package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// runsAhead is how many jobs a slot of the fleet one tenant may have released or
	// running. With 2, a job of another tenant waits for two of its runs at most, and a
	// slot never waits for the next job to be released.
	runsAhead = 2
	// slotsLife is how long all processes go by what one of them counted, slotsKnown how
	// long one goes by what it read of that.
	slotsLife  = 2 * time.Second
	slotsKnown = time.Second
	// silentSlots is what a worker has that doesn't say: one of a version before it did.
	silentSlots = 2
)

// slots is how many jobs the fleet runs at once, as far as this process knows.
type slots struct {
	mu    sync.Mutex
	total int64
	read  time.Time
}

// window is how many jobs of the tenant may be released or running at once.
func (s *Store) window(ctx context.Context, tenant string) (int64, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return 0, err
	}
	total, err := s.Slots(ctx)
	if err != nil {
		return 0, err
	}
	window := runsAhead * max(total, 1) // where no worker is seen, the next one finds something to do
	if most := terms.Quotas.RunningAtOnce; most > 0 {
		window = min(window, most)
	}
	return window, nil
}

// Slots is how many jobs all workers together run at once, as it was within the last
// three seconds. One that is paused, or has not beaten for 15 s, has none.
func (s *Store) Slots(ctx context.Context) (int64, error) {
	if total, ok := s.slots.known(); ok {
		return total, nil
	}
	total, err := s.rdb.Get(ctx, slotsTotalKey).Int64()
	if errors.Is(err, redis.Nil) { // every worker asks: one of them counts
		if total, err = s.countSlots(ctx); err == nil {
			err = s.rdb.Set(ctx, slotsTotalKey, total, slotsLife).Err()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("count the fleet's slots: %w", err)
	}
	s.slots.know(total)
	return total, nil
}

func (s *slots) known() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, time.Since(s.read) < slotsKnown
}

func (s *slots) know(total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.read = total, time.Now()
}

func (s *Store) countSlots(ctx context.Context) (total int64, err error) {
	said, err := s.rdb.HGetAll(ctx, slotsKey).Result()
	if err != nil || len(said) == 0 {
		return 0, err
	}
	pipe := s.rdb.Pipeline()
	living := map[string]*redis.IntCmd{}
	for worker := range said {
		living[worker] = pipe.Exists(ctx, workerKey(worker))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	var gone []string
	for worker, n := range said {
		if living[worker].Val() == 0 {
			gone = append(gone, worker)
			continue
		}
		of, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("worker %s has %.20q of them", worker, n)
		}
		total += of
	}
	if len(gone) > 0 { // one that beats at this moment says it again with its next beat
		err = s.rdb.HDel(ctx, slotsKey, gone...).Err()
	}
	return total, err
}

// noteSilent counts a worker that lives and doesn't say how many jobs it runs at once.
func (s *Store) noteSilent(ctx context.Context, w Worker) error {
	if w.ID == "" || w.Concurrency > 0 || w.Paused != "" {
		return nil
	}
	return s.rdb.HSetNX(ctx, slotsKey, w.ID, silentSlots).Err()
}

// windowOrNone is for those whose work must not fail for want of it: with 0 they release
// nothing, which leaves it to the sweeper.
func (s *Store) windowOrNone(ctx context.Context, tenant string) int64 {
	window, err := s.window(ctx, tenant)
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("the next jobs are released by the sweeper", "tenant", tenant, "error", err)
	}
	return window
}
