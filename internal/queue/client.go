// Package queue is what Glovebox has of asynq: the queues of jobs and deliveries, their tasks, and
// servers that are notified of a task at once. A task only says that a record wants a process;
// internal/record has the truth. Start at [Client] and [Server].
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

const (
	// Attempts are counted in the record; a task must never be archived by asynq,
	// for then its TaskID stays taken and no handler ever sees it.
	neverArchive = 1 << 30
	// Time-outs are the sandbox's; asynq's only has to be out of the way.
	taskTimeout = 30 * 24 * time.Hour
)

// Client enqueues tasks and looks at queues. Safe for concurrent use.
type Client struct {
	rdb        *redis.Client
	tasks      *asynq.Client
	load       load
	unreadable redisconn.Unreadable
	now        func() time.Time
}

// New returns the queues in that Redis. now says what the time is, for tasks that are to be taken later.
func New(rdb *redis.Client, now func() time.Time, log *slog.Logger) *Client {
	c := &Client{rdb: rdb, now: now, unreadable: redisconn.Unreadable{Log: log}}
	c.tasks = asynq.NewClientFromRedisClient(enqueuer{rdb, &c.load})
	return c
}

// Enqueue makes sure that there is this task.
func (c *Client) Enqueue(ctx context.Context, t Task) error {
	b, err := json.Marshal(t.payload)
	if err != nil {
		return err
	}
	opts := []asynq.Option{asynq.TaskID(t.id), asynq.Queue(t.queue), asynq.MaxRetry(neverArchive), asynq.Timeout(taskTimeout)}
	if t.at.After(c.now()) {
		// asynq drops what is below a second, and would come too early.
		opts = append(opts, asynq.ProcessAt(t.at.Add(time.Second-1).Truncate(time.Second)))
	}
	_, err = c.tasks.EnqueueContext(ctx, asynq.NewTask(t.kind, b), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue task %s: %w", t.id, err)
	}
	return nil
}
