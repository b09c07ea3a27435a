package record

import (
	"context"
	"errors"
	"fmt"
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
	// capacityKnown is how long a process goes by what it read of the fleet's slots and each
	// tenant's share.
	capacityKnown = time.Second
	// crowdKnown is how long a process goes by that the queue was long.
	crowdKnown = 100 * time.Millisecond
	// shareLife is how long a share holds that no sweeper has renewed.
	shareLife = time.Minute
)

// capacity is what this process knows of how much work there is room for.
type capacity struct {
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
	slots, share, err := s.readCapacity(ctx)
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
	slots, _, _ := s.capacity.known()
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

// readCapacity returns the fleet's slots and each tenant's share of the queue, as they were within
// the last three seconds.
func (s *Store) readCapacity(ctx context.Context) (slots, share int64, err error) {
	if slots, share, ok := s.capacity.known(); ok {
		return slots, share, nil
	}
	pipe := s.rdb.Pipeline()
	counted, shared, note := s.Fleet.ReadSlots(ctx, pipe), pipe.Get(ctx, shareKey), s.Queue.ReadLoad(ctx, pipe)
	if err = redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return 0, 0, fmt.Errorf("read slots and share: %w", err)
	}
	if slots, err = counted(); err != nil {
		return 0, 0, err
	}
	share, err = shared.Int64()
	if errors.Is(err, redis.Nil) { // no sweeper yet, or none for long
		share, err = ahead(slots), nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read each tenant's share: %w", err)
	}
	note()
	s.capacity.know(slots, share)
	return slots, share, nil
}

func (c *capacity) known() (slots, share int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots, c.share, time.Since(c.read) < capacityKnown
}

func (c *capacity) know(slots, share int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots, c.share, c.read = slots, share, time.Now()
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
