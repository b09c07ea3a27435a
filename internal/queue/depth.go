package queue

import (
	"context"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/job"
)

// Depth is how much there is in a queue. A job is queued without a task in it while it is in
// its tenant's backlog, and for the moment that the sweeper needs.
type Depth struct {
	Name string
	// Waiting tasks are due, Active ones in the hands of a process, Delayed ones due later.
	Waiting, Active, Delayed int
	// Oldest is how long the task waits that waits longest.
	Oldest time.Duration
}

// Depths counts the tasks in the queues of all priorities and of deliveries. It takes two round trips a queue.
func (c *Client) Depths() []Depth {
	inspector := asynq.NewInspectorFromRedisClient(c.rdb)
	used, err := inspector.Queues()
	if err != nil {
		c.unreadable.PassOver("names of queues", err)
	}
	names := []string{string(job.High), string(job.Normal), string(job.Low), Delivery, DeliveryBacklog}
	depths := make([]Depth, len(names))
	for i, name := range names {
		d := &depths[i]
		d.Name = name
		if !slices.Contains(used, name) { // nothing was ever in it
			continue
		}
		info, err := inspector.GetQueueInfo(name)
		if err != nil { // asynq doesn't say whether Redis answered
			c.unreadable.PassOver("a queue", err)
			continue
		}
		d.Waiting, d.Active, d.Delayed, d.Oldest = info.Pending, info.Active, info.Scheduled+info.Retry, info.Latency
	}
	return depths
}

// HasHandedOver reports whether a task waits that was handed over to workers that offer the name.
func (c *Client) HasHandedOver(ctx context.Context, name string) (bool, error) {
	for priority := range Jobs() {
		n, err := c.rdb.LLen(ctx, key(handedOver(priority, name), "pending")).Result()
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}
