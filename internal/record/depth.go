package record

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/job"
)

// Depth is how much there is to do, of all tenants together.
type Depth struct {
	// Queued and Running are jobs, Deliveries webhook messages that are not done,
	// Garbage jobs whose objects are to be looked at, now or later.
	Queued, Running, Deliveries, Garbage int64
	Queues                               []QueueDepth
}

// QueueDepth is one of asynq's queues. A job is queued without a task in it while it is in
// its tenant's backlog, and for the moment that the sweeper needs.
type QueueDepth struct {
	Name string
	// Waiting tasks are due, Active ones in the hands of a process, Delayed ones due later.
	Waiting, Active, Delayed int
	// Oldest is how long the task waits that waits longest.
	Oldest time.Duration
}

// depthTenants is of how many tenants one round trip asks.
const depthTenants = 500

// Depth counts what there is to do. It takes a round trip for 500 tenants and two a queue.
func (s *Store) Depth(ctx context.Context) (Depth, error) {
	var d Depth
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	for len(tenants) > 0 && err == nil {
		some := tenants[:min(len(tenants), depthTenants)]
		tenants = tenants[len(some):]
		err = s.addDepth(ctx, &d, some)
	}
	if err != nil {
		return Depth{}, fmt.Errorf("count what there is to do: %w", err)
	}
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	used, err := inspector.Queues()
	if err != nil {
		return Depth{}, fmt.Errorf("list queues: %w", err)
	}
	for _, name := range []string{string(job.High), string(job.Normal), string(job.Low), DeliveryQueue} {
		q := QueueDepth{Name: name}
		if slices.Contains(used, name) { // else nothing was ever in it
			info, err := inspector.GetQueueInfo(name)
			if err != nil {
				return Depth{}, fmt.Errorf("look at queue %s: %w", name, err)
			}
			q.Waiting, q.Active, q.Delayed, q.Oldest = info.Pending, info.Active, info.Scheduled+info.Retry, info.Latency
		}
		d.Queues = append(d.Queues, q)
	}
	return d, nil
}

func (s *Store) addDepth(ctx context.Context, d *Depth, tenants []string) error {
	pipe := s.rdb.Pipeline()
	type count struct {
		into *int64
		of   func() int64
	}
	var counts []count
	for _, t := range tenants {
		counts = append(counts,
			count{&d.Queued, countQueued(ctx, pipe, t)}, count{&d.Running, pipe.HLen(ctx, runningKey(t)).Val},
			count{&d.Deliveries, pipe.ZCard(ctx, outboxKey(t)).Val}, count{&d.Garbage, pipe.ZCard(ctx, garbageKey(t)).Val})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for _, c := range counts {
		*c.into += c.of()
	}
	return nil
}
