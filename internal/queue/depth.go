package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// Depth is how much there is in a queue, with what of it is for some workers only: a pool's, or
// those that offer a runtime. A job is queued without a task in it while it is in its tenant's
// backlog, and for the moment that the sweeper needs.
type Depth struct {
	Name string
	// Waiting tasks are due, Active ones in the hands of a process, Delayed ones due later.
	Waiting, Active, Delayed int
	// Oldest is how long the task waits that waits longest.
	Oldest time.Duration
}

// Depths counts the tasks of jobs by their priority, of sessions and of deliveries. What can't be read counts as
// nothing. It takes two round trips for 100 queues.
func (c *Client) Depths(ctx context.Context) ([]Depth, error) {
	used, err := c.rdb.SMembers(ctx, "asynq:queues").Result()
	switch {
	case redisconn.WrongType(err):
		c.unreadable.PassOver("names of queues", err)
	case err != nil:
		return nil, fmt.Errorf("read names of queues: %w", err)
	}
	depths := []Depth{{Name: string(job.High)}, {Name: string(job.Normal)}, {Name: string(job.Low)}, {Name: sessions}, {Name: Delivery}, {Name: DeliveryBacklog}}
	for some := range slices.Chunk(used, redisconn.AtOnce/5) {
		if err := c.addDepths(ctx, some, depths); err != nil {
			return nil, fmt.Errorf("count tasks of queues: %w", err)
		}
	}
	return depths, nil
}

// tasks are the answers of Redis about one queue.
type tasks struct {
	of                                  *Depth // the sum to which the queue belongs
	queue                               string
	pending, active, scheduled, retried *redis.IntCmd
	oldest                              *redis.StringSliceCmd // of those that are pending
	since                               *redis.StringCmd      // of the oldest; nil: there is none
}

// addDepths adds what is in these queues.
func (c *Client) addDepths(ctx context.Context, queues []string, depths []Depth) error {
	var all []*tasks
	pipe := c.rdb.Pipeline()
	for _, q := range queues {
		if d := depthOf(depths, q); d != nil {
			all = append(all, &tasks{
				of: d, queue: q,
				pending: pipe.LLen(ctx, key(q, "pending")), active: pipe.LLen(ctx, key(q, "active")), scheduled: pipe.ZCard(ctx, key(q, "scheduled")), retried: pipe.ZCard(ctx, key(q, "retry")),
				oldest: pipe.LRange(ctx, key(q, "pending"), -1, -1),
			})
		}
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return err
	}
	pipe = c.rdb.Pipeline()
	for _, t := range all {
		for _, count := range []*redis.IntCmd{t.pending, t.active, t.scheduled, t.retried} {
			if err := count.Err(); err != nil {
				c.unreadable.PassOver("a queue", err)
			}
		}
		t.of.Waiting += int(t.pending.Val())
		t.of.Active += int(t.active.Val())
		t.of.Delayed += int(t.scheduled.Val() + t.retried.Val())
		for _, id := range t.oldest.Val() {
			t.since = pipe.HGet(ctx, key(t.queue, "t:"+id), "pending_since")
		}
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return err
	}
	for _, t := range all {
		if t.since == nil {
			continue
		}
		if ns, err := strconv.ParseInt(t.since.Val(), 10, 64); err == nil { // or a worker has just taken it
			t.of.Oldest = max(t.of.Oldest, c.now().Sub(time.Unix(0, ns)))
		}
	}
	return nil
}

// depthOf returns that of a queue, or of the one whose tasks it has for some workers only; nil for a queue that is not ours.
func depthOf(depths []Depth, queue string) *Depth {
	whole, _, _ := strings.Cut(queue, ":")
	for _, name := range []string{queue, whole} {
		if i := slices.IndexFunc(depths, func(d Depth) bool { return d.Name == name }); i >= 0 {
			return &depths[i]
		}
	}
	return nil
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
