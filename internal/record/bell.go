package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// A bell is a list in Redis: whoever enqueues a task pushes to it, and servers without
// work wait there, so that one of them hears of each task at once. asynq only polls,
// which costs latency or, with many workers, a Redis.
//
// It promises nothing: what was rung may be lost with who heard it, or be about a task that
// another has taken by now. So servers also look for themselves, now and then.
const (
	jobsBell       = "gb:bell:jobs"
	deliveriesBell = "gb:bell:deliveries"
	// bellMost is how often a bell may have been rung that nobody hears: what is more
	// says nothing new to servers that are all at work.
	bellMost = 64
	// polled is how soon asynq asks again when nothing came of a wait.
	polled = time.Millisecond
	// mostInterval is far below the lease of 30 s that asynq takes a task for.
	mostInterval = 10 * time.Second
)

// bellOf is the bell of a queue. Jobs that were handed over have another than the rest,
// which nobody hears but who serves them; it is forgotten when nobody rings it.
func bellOf(queue string) (bell string, handed bool) {
	_, name, handed := strings.Cut(queue, ":")
	switch {
	case queue == DeliveryQueue, queue == DeliveryBacklogQueue:
		return deliveriesBell, false
	case handed:
		return jobsBell + ":" + name, true
	}
	return jobsBell, false
}

// handedBellLife is for how long the bell of jobs that were handed over is kept.
const handedBellLife = time.Minute

// ringer is asynq's connection to enqueue by: it rings the bell in the same round trip, and
// notes how many tasks the queue has then.
type ringer struct {
	redis.UniversalClient
	fleet *workforce
}

// EvalSha enqueues a task: asynq's client has no other scripts.
func (r ringer) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if g, ok := ctx.Value(gatheringKey{}).(*gathering); ok {
		return g.add(ctx, sha1, keys, args)
	}
	pipe := r.Pipeline()
	return r.ring(ctx, pipe, pipe.EvalSha(ctx, sha1, keys, args...), keys)
}

// Eval does so where Redis doesn't know the script yet.
func (r ringer) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	pipe := r.Pipeline()
	return r.ring(ctx, pipe, pipe.Eval(ctx, script, keys, args...), keys)
}

func (r ringer) ring(ctx context.Context, pipe redis.Pipeliner, enqueued *redis.Cmd, keys []string) *redis.Cmd {
	queue := queueOf(keys)
	push(ctx, pipe, queue, 1)
	see := r.fleet.ask(ctx, pipe, queue)
	_, _ = pipe.Exec(ctx) // enqueued has its error; a bell that was not rung costs time only
	see()
	return enqueued
}

// queueOf is the queue that these keys of asynq's are of.
func queueOf(keys []string) string {
	// Each has its queue in braces; what follows may be a job's id, with any name.
	_, queue, _ := strings.Cut(keys[0], "{")
	queue, _, _ = strings.Cut(queue, "}")
	return queue
}

// push rings the bell of a queue for n tasks.
func push(ctx context.Context, pipe redis.Pipeliner, queue string, n int) {
	bell, handed := bellOf(queue)
	pipe.LPush(ctx, bell, slices.Repeat([]any{"1"}, min(n, bellMost))...)
	pipe.LTrim(ctx, bell, 0, bellMost-1)
	if handed {
		pipe.Expire(ctx, bell, handedBellLife)
	}
}

// Server is a server of asynq that hears of a task when it is enqueued.
type Server struct {
	*asynq.Server
	asker *asker
}

// Server returns one that, without work, waits for c.TaskCheckInterval at most before it looks,
// and for mostInterval if that is less.
//
// places, which may be nil, has room for as many tasks as there may be in hand, whichever
// server they came from: one is sent to it before a task is asked for, and the handler
// receives it when it is done. So no task leaves its queue that has no place to go to.
func (s *Store) Server(c asynq.Config, places chan struct{}) *Server {
	c.TaskCheckInterval = min(c.TaskCheckInterval, mostInterval)
	b := s.listenBell(c)
	c.TaskCheckInterval = polled
	a := &asker{UniversalClient: s.rdb, bell: b, queues: len(c.Queues), places: places}
	return &Server{asynq.NewServerFromRedisClient(a, c), a}
}

// Stop takes no more tasks once it returns.
func (s *Server) Stop() {
	s.asker.bell.close()
	s.Server.Stop()
	s.asker.leave()
}

// Shutdown is Stop, and waits for the tasks under way as asynq does.
func (s *Server) Shutdown() {
	s.Stop()
	s.Server.Shutdown()
}

// asker is a server's connection: once asynq has found all its queues empty, it waits for
// the bell and asks all of them again before it answers. asynq itself would sleep first,
// and Go's clock knows no sleep below a millisecond.
type asker struct {
	redis.UniversalClient
	bell   *bell
	queues int
	asked  []question // of queues that were empty, one after the other; one goroutine asks
	places chan struct{}
	holds  bool // a place, for the task that is being asked for
}

type question struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs one of asynq's scripts.
func (a *asker) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if err := asynqsOwn(keys); err != nil {
		return failed(ctx, err)
	}
	if !asksForTask(keys) {
		return a.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	}
	if !a.enter() {
		return none(ctx)
	}
	answer := a.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	if !errors.Is(answer.Err(), redis.Nil) {
		a.asked = a.asked[:0]
		return a.took(answer)
	}
	if a.asked = append(a.asked, question{sha1, keys, args}); len(a.asked) < a.queues {
		return answer
	}
	rung := a.bell.wait(ctx)
	for _, q := range a.asked {
		// The lease that it asks for began before the wait: the interval is far below it. And
		// a task says itself of which queue it is.
		if rung && errors.Is(answer.Err(), redis.Nil) {
			answer = a.UniversalClient.EvalSha(ctx, q.sha1, q.keys, q.args...)
		}
	}
	a.asked = a.asked[:0]
	return a.took(answer)
}

// Eval does so where Redis doesn't know the script yet.
func (a *asker) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	if err := asynqsOwn(keys); err != nil {
		return failed(ctx, err)
	}
	if !asksForTask(keys) {
		return a.UniversalClient.Eval(ctx, script, keys, args...)
	}
	if !a.enter() {
		return none(ctx)
	}
	return a.took(a.UniversalClient.Eval(ctx, script, keys, args...))
}

// asynqsOwn fails for a key that is not asynq's. It takes one from the task, which a worker may
// have written, and would delete it with the rights of this process.
func asynqsOwn(keys []string) error {
	for _, key := range keys {
		if !strings.HasPrefix(key, "asynq:") {
			return fmt.Errorf("a task names the key %.100q, which is not asynq's", key)
		}
	}
	return nil
}

// asksForTask knows asynq's dequeue by its keys: no other script wants to know whether its
// queue is paused.
func asksForTask(keys []string) bool {
	return len(keys) >= 2 && strings.HasSuffix(keys[1], ":paused")
}

// none is what Redis says of a queue that is empty.
func none(ctx context.Context) *redis.Cmd {
	return failed(ctx, redis.Nil)
}

func failed(ctx context.Context, err error) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	answer.SetErr(err)
	return answer
}

// enter waits for a place for a task. It returns false when the server stops before there
// is one. A place that no task came for is kept for the next question.
func (a *asker) enter() bool {
	if a.places == nil || a.holds {
		return true
	}
	select {
	case a.places <- struct{}{}:
		a.holds = true
		return true
	case <-a.bell.closed:
		return false
	}
}

// took notes whether the answer is a task, with which the place is its handler's.
func (a *asker) took(answer *redis.Cmd) *redis.Cmd {
	if answer.Err() == nil {
		a.holds = false
	}
	return answer
}

// leave gives back the place that no task came for. Nobody asks any more.
func (a *asker) leave() {
	if a.holds {
		a.holds = false
		<-a.places
	}
}

// bell is a server's place at one. It has a connection of its own, which is the only way
// to end a wait before its time.
type bell struct {
	rdb      *redis.Client
	keys     []any
	interval time.Duration
	closed   chan struct{}
	close    func()
}

func (s *Store) listenBell(c asynq.Config) *bell {
	opts := *s.rdb.Options()
	opts.PoolSize, opts.MinIdleConns = 1, 0
	opts.ReadTimeout = c.TaskCheckInterval + redisconn.CallTimeout
	b := &bell{rdb: redis.NewClient(&opts), interval: c.TaskCheckInterval, closed: make(chan struct{})}
	for queue := range c.Queues {
		if key, _ := bellOf(queue); !slices.Contains(b.keys, any(key)) {
			b.keys = append(b.keys, key)
		}
	}
	b.close = sync.OnceFunc(func() {
		close(b.closed)
		_ = b.rdb.Close() // also what waits for an answer
	})
	return b
}

// wait returns when the bell was rung, the interval is over or the bell is closed.
func (b *bell) wait(ctx context.Context) (rung bool) {
	err := b.rdb.Do(ctx, append(append([]any{"BLPOP"}, b.keys...), b.interval.Seconds())...).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return err == nil
	}
	select { // Redis is away, or the bell closed
	case <-time.After(b.interval):
	case <-b.closed:
	}
	return false
}
