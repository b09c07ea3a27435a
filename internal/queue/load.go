package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// load is how many tasks each queue of jobs had when this process saw it last.
type load struct {
	mu    sync.Mutex
	tasks map[string]queueLoad
}

// queueLoad is how many tasks of a queue wait, or somebody has.
type queueLoad struct {
	n    int64
	seen time.Time
}

// ReadLoad reads in the pipeline how many tasks there are in the queues of jobs that all workers
// share. note notes the answers, once there are any.
func (c *Client) ReadLoad(ctx context.Context, pipe redis.Pipeliner) (note func()) {
	return c.load.read(ctx, pipe, slices.Sorted(maps.Keys(Jobs()))...)
}

func (l *load) read(ctx context.Context, pipe redis.Pipeliner, queues ...string) (note func()) {
	queues = slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return Jobs()[queue] == 0 })
	waiting, active := make([]*redis.IntCmd, len(queues)), make([]*redis.IntCmd, len(queues))
	for i, queue := range queues {
		waiting[i], active[i] = pipe.LLen(ctx, key(queue, "pending")), pipe.LLen(ctx, key(queue, "active"))
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.tasks == nil {
			l.tasks = map[string]queueLoad{}
		}
		for i, queue := range queues {
			if waiting[i].Err() == nil && active[i].Err() == nil {
				l.tasks[queue] = queueLoad{waiting[i].Val() + active[i].Val(), time.Now()}
			}
		}
	}
}

// Load is how many tasks there are in the queues of jobs that all workers share, as this process saw
// them last, and since when it has seen each of them.
func (c *Client) Load() (tasks int64, since time.Time) {
	c.load.mu.Lock()
	defer c.load.mu.Unlock()
	since = time.Now()
	for queue := range Jobs() {
		t := c.load.tasks[queue]
		tasks += t.n
		if t.seen.Before(since) {
			since = t.seen
		}
	}
	return tasks, since
}
