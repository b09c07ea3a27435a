package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// Servers without work wait at a list in Redis, to which whoever enqueues a task pushes, so that
// one of them hears of each task at once. asynq only polls, which costs latency or, with many
// workers, a Redis.
//
// A notification promises nothing: it may be lost with the server that got it, or be about a task that
// another has taken by now. So servers also poll, now and then.
const (
	jobsKey       = "gb:bell:jobs"
	deliveriesKey = "gb:bell:deliveries"
	// mostPending is how many notifications wait at most that no server takes: more
	// say nothing new to servers that are all at work.
	mostPending = 64
	// handedOverLife is how long notifications of jobs that were handed over are kept.
	handedOverLife = time.Minute
)

// notifyKey is the list for a queue. Jobs that were handed over have another than the rest, at which
// only servers of their queue wait; it is forgotten when nobody pushes.
func notifyKey(queue string) (key string, handedOver bool) {
	_, name, handedOver := strings.Cut(queue, ":")
	switch {
	case queue == Delivery, queue == DeliveryBacklog:
		return deliveriesKey, false
	case strings.HasPrefix(queue, Sessions("", "")): // not that of jobs of the runtime
		return jobsKey + ":" + queue, true
	case handedOver:
		return jobsKey + ":" + name, true
	}
	return jobsKey, false
}

// notify wakes servers of a queue for n tasks.
func notify(ctx context.Context, pipe redis.Pipeliner, queue string, n int) {
	key, handedOver := notifyKey(queue)
	pipe.LPush(ctx, key, slices.Repeat([]any{"1"}, min(n, mostPending))...)
	pipe.LTrim(ctx, key, 0, mostPending-1)
	if handedOver {
		pipe.Expire(ctx, key, handedOverLife)
	}
}

// notifier wakes one idle server for each task that is enqueued. It waits on a connection of its
// own, which is the only way to end a wait before its time.
type notifier struct {
	rdb      *redis.Client
	keys     []any
	interval time.Duration
	closed   chan struct{}
	close    func()
}

func newNotifier(rdb *redis.Client, c asynq.Config) *notifier {
	opts := *rdb.Options()
	opts.PoolSize, opts.MinIdleConns = 1, 0
	opts.MaxRetries = -1 // none, as before: the client that these are of has made 0 of it, which means 3 to another
	opts.ReadTimeout = c.TaskCheckInterval + redisconn.CallTimeout
	n := &notifier{rdb: redis.NewClient(&opts), interval: c.TaskCheckInterval, closed: make(chan struct{})}
	for queue := range c.Queues {
		if key, _ := notifyKey(queue); !slices.Contains(n.keys, any(key)) {
			n.keys = append(n.keys, key)
		}
	}
	n.close = sync.OnceFunc(func() {
		close(n.closed)
		_ = n.rdb.Close() // also what waits for an answer
	})
	return n
}

// wait returns when a task was enqueued, the interval is over or the notifier is closed.
func (n *notifier) wait(ctx context.Context) (notified bool) {
	err := n.rdb.Do(ctx, append(append([]any{"BLPOP"}, n.keys...), n.interval.Seconds())...).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return err == nil
	}
	select { // Redis is away, or the notifier closed
	case <-time.After(n.interval):
	case <-n.closed:
	}
	return false
}
