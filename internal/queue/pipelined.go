package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// pipelined is what asynq would send to enqueue tasks, which it does one at a time: it goes
// to Redis in one round trip.
type pipelined struct {
	pipe     redis.Pipeliner
	enqueued []*redis.Cmd
	queues   map[string]int // queue → tasks
}

// pipelinedKey is that of a context's pipelined, by which enqueuer finds it.
type pipelinedKey struct{}

// add answers what asynq wants to hear: that the task is enqueued.
func (p *pipelined) add(ctx context.Context, sha1 string, keys []string, args []any) *redis.Cmd {
	p.enqueued = append(p.enqueued, p.pipe.EvalSha(ctx, sha1, keys, args...))
	p.queues[queueOf(keys)]++
	yes := redis.NewCmd(ctx)
	yes.SetVal(int64(1))
	return yes
}

// EnqueueAll makes sure that there are these tasks, in one round trip for 500. One that can't
// be enqueued holds up no other. After an error nobody knows of which there are.
func (c *Client) EnqueueAll(ctx context.Context, tasks []Task) error {
	var errs []error
	for some := range slices.Chunk(tasks, redisconn.AtOnce) {
		failed, err := c.enqueueSome(ctx, some)
		if errs = append(errs, failed...); err != nil {
			errs = append(errs, err)
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("enqueue %d tasks: %w", len(tasks), err)
	}
	return nil
}

// enqueueSome fails where Redis didn't answer. errs are of tasks that it, or asynq, refused.
func (c *Client) enqueueSome(ctx context.Context, tasks []Task) (errs []error, err error) {
	p := &pipelined{pipe: c.rdb.Pipeline(), queues: map[string]int{}}
	pipelining := context.WithValue(ctx, pipelinedKey{}, p)
	var sent []Task
	refused := map[string]bool{} // queues: what asynq refuses before it sends a task, it refuses of all
	for _, t := range tasks {
		if refused[t.queue] {
			continue
		}
		if err := c.Enqueue(pipelining, t); err != nil {
			refused[t.queue] = true
			errs = append(errs, err)
			continue
		}
		sent = append(sent, t)
	}
	queues := slices.Sorted(maps.Keys(p.queues))
	for _, queue := range queues {
		notify(ctx, p.pipe, queue, p.queues[queue])
	}
	note := c.load.read(ctx, p.pipe, queues...)
	if err := redisconn.Unanswered(p.pipe.Exec(ctx)); err != nil {
		return errs, err
	}
	note()
	for i, enqueued := range p.enqueued {
		err := enqueued.Err()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // Redis is new: asynq tells it the script, once
			err = c.Enqueue(ctx, sent[i])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("enqueue task %.100s: %w", sent[i].id, err))
		}
	}
	return errs, nil
}
