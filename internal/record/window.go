package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// runsAhead is how many jobs a slot of the fleet tenants with a backlog may have released
	// or running, all together. With 2, a slot never waits for the next job to be released,
	// and a job of another tenant waits for two runs, and one of each of those tenants.
	runsAhead = 2
	// slotsLife is how long all processes go by what one of them counted, slotsKnown how
	// long one goes by what it read of that.
	slotsLife  = 2 * time.Second
	slotsKnown = time.Second
	// crowdKnown is how long a process goes by that the queue was long.
	crowdKnown = 100 * time.Millisecond
	// shareLife is how long a share holds that no sweeper has renewed.
	shareLife = time.Minute
	// mostSlots is more than any fleet has. What is beyond was not counted by us.
	mostSlots = 1_000_000
)

// workforce is what this process knows of the workers, and of the queue that all tenants share.
type workforce struct {
	mu sync.Mutex
	// slots is how many jobs run at once, share how many each tenant with a backlog may have
	// released or running.
	slots, share int64
	read         time.Time
}

// ahead is how many jobs are released or run so that no slot waits for the next: of one
// tenant alone as of all together.
func ahead(slots int64) int64 { return runsAhead * max(slots, 1) } // where no worker is seen, the next one finds something to do

// window is how many jobs of the tenant may be released or running at once.
func (s *Store) window(ctx context.Context, tenant string) (int64, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return 0, err
	}
	slots, share, err := s.lookAtFleet(ctx)
	if err != nil {
		return 0, err
	}
	return narrow(min(share, ahead(slots)), terms), nil
}

// narrow is a window within the tenant's quota.
func narrow(window int64, terms job.Terms) int64 {
	if most := terms.Quotas.RunningAtOnce; most > 0 {
		return min(window, most)
	}
	return window
}

// mostOpen is how many released jobs of a tenant may wait for a worker where it creates
// more, 0 for as many as its window has room for. While tasks of all tenants fill the queue, it
// is one: many that come at once would else each fill a window, before the release pass has
// shared the queue out. That releases the rest of a share within a second.
//
// That the queue is full is asked anew where it was seen some time ago: a round trip now and
// then, and only while it is.
func (s *Store) mostOpen(ctx context.Context) (int64, error) {
	slots, _, _ := s.fleet.known()
	n, seen := s.Queue.Load()
	if n >= ahead(slots) && time.Since(seen) > crowdKnown {
		pipe := s.rdb.Pipeline()
		note := s.Queue.ReadLoad(ctx, pipe)
		if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
			return 0, fmt.Errorf("count tasks: %w", err)
		}
		note()
		n, _ = s.Queue.Load()
	}
	if n >= ahead(slots) {
		return 1, nil
	}
	return 0, nil
}

// Slots is how many jobs all workers together run at once, as it was within the last
// three seconds. One that is paused, or has not beaten for 15 s, has none.
func (s *Store) Slots(ctx context.Context) (int64, error) {
	slots, _, err := s.lookAtFleet(ctx)
	return slots, err
}

// lookAtFleet is the fleet's slots and each tenant's share of the queue, as they were within
// the last three seconds.
func (s *Store) lookAtFleet(ctx context.Context) (slots, share int64, err error) {
	if slots, share, ok := s.fleet.known(); ok {
		return slots, share, nil
	}
	pipe := s.rdb.Pipeline()
	total, left, shared := pipe.Get(ctx, slotsTotalKey), pipe.PTTL(ctx, slotsTotalKey), pipe.Get(ctx, shareKey)
	note := s.Queue.ReadLoad(ctx, pipe)
	if err = redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return 0, 0, fmt.Errorf("look at the fleet: %w", err)
	}
	slots, counted := countedSlots(total, left)
	if !counted { // every worker asks: one of them counts
		if slots, err = s.countSlots(ctx); err == nil {
			err = s.rdb.Set(ctx, slotsTotalKey, slots, slotsLife).Err()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("count the fleet's slots: %w", err)
		}
	}
	share, err = shared.Int64()
	if errors.Is(err, redis.Nil) { // no sweeper yet, or none for long
		share, err = ahead(slots), nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read each tenant's share: %w", err)
	}
	note()
	s.fleet.know(slots, share)
	return slots, share, nil
}

func (f *workforce) known() (slots, share int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots, f.share, time.Since(f.read) < slotsKnown
}

func (f *workforce) know(slots, share int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots, f.share, f.read = slots, share, time.Now()
}

// countedSlots is the sum that some process counted; not what none of ours can have written: it would
// hold for longer than slotsLife, or release nothing, or everything.
func countedSlots(total *redis.StringCmd, left *redis.DurationCmd) (slots int64, ok bool) {
	slots, err := total.Int64()
	ok = err == nil && left.Err() == nil && left.Val() > 0 && left.Val() <= slotsLife
	return slots, ok && slots >= 0 && slots <= mostSlots
}

func (s *Store) countSlots(ctx context.Context) (total int64, err error) {
	said, err := s.rdb.HGetAll(ctx, slotsKey).Result()
	if redisconn.WrongType(err) { // every worker says it again with its next beat
		s.unreadable.PassOver(slotsKey, err)
		return 0, s.rdb.Del(ctx, slotsKey).Err()
	}
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
		if err != nil || of < 0 || of > mostSlots {
			s.unreadable.PassOver(slotsKey, fmt.Errorf("worker %.100q has %.20q slots", worker, n))
			continue
		}
		total = min(total+of, mostSlots)
	}
	if len(gone) > 0 { // one that beats at this moment says it again with its next beat
		err = s.rdb.HDel(ctx, slotsKey, gone...).Err()
	}
	return total, err
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
