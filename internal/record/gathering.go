package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// gathering is what asynq would send to enqueue tasks, which it does one at a time: it goes
// to Redis in one round trip.
type gathering struct {
	pipe     redis.Pipeliner
	enqueued []*redis.Cmd
	queues   map[string]int // queue → tasks
}

// gatheringKey is that of a context's gathering, by which ringer finds it.
type gatheringKey struct{}

// add answers what asynq wants to hear: that the task is enqueued.
func (g *gathering) add(ctx context.Context, sha1 string, keys []string, args []any) *redis.Cmd {
	g.enqueued = append(g.enqueued, g.pipe.EvalSha(ctx, sha1, keys, args...))
	g.queues[queueOf(keys)]++
	yes := redis.NewCmd(ctx)
	yes.SetVal(int64(1))
	return yes
}

// enqueueAll makes sure that there are these tasks, in one round trip for 500. One that can't
// be enqueued holds up no other. After an error nobody knows of which there are.
func (s *Store) enqueueAll(ctx context.Context, tasks []task) error {
	var errs []error
	for some := range slices.Chunk(tasks, redisconn.AtOnce) {
		failed, err := s.enqueueSome(ctx, some)
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
func (s *Store) enqueueSome(ctx context.Context, tasks []task) (errs []error, err error) {
	g := &gathering{pipe: s.rdb.Pipeline(), queues: map[string]int{}}
	gathered := context.WithValue(ctx, gatheringKey{}, g)
	var sent []task
	refused := map[string]bool{} // queues: what asynq refuses before it sends a task, it refuses of all
	for _, t := range tasks {
		if refused[t.queue] {
			continue
		}
		if err := s.enqueue(gathered, t); err != nil {
			refused[t.queue] = true
			errs = append(errs, err)
			continue
		}
		sent = append(sent, t)
	}
	queues := slices.Sorted(maps.Keys(g.queues))
	for _, queue := range queues {
		push(ctx, g.pipe, queue, g.queues[queue])
	}
	see := s.fleet.ask(ctx, g.pipe, queues...)
	if err := redisconn.Unanswered(g.pipe.Exec(ctx)); err != nil {
		return errs, err
	}
	see()
	for i, enqueued := range g.enqueued {
		err := enqueued.Err()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // Redis is new: asynq tells it the script, once
			err = s.enqueue(ctx, sent[i])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("enqueue task %.100s: %w", sent[i].id, err))
		}
	}
	return errs, nil
}
