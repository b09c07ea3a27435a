package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// enqueuer is asynq's connection to enqueue by: it notifies a server in the same round trip, and
// notes how many tasks the queue has then.
type enqueuer struct {
	redis.UniversalClient
	load *load
}

// EvalSha enqueues a task: asynq's client has no other scripts.
func (e enqueuer) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if p, ok := ctx.Value(pipelinedKey{}).(*pipelined); ok {
		return p.add(ctx, sha1, keys, args)
	}
	pipe := e.Pipeline()
	return e.exec(ctx, pipe, pipe.EvalSha(ctx, sha1, keys, args...), keys)
}

// Eval does so where Redis doesn't know the script yet.
func (e enqueuer) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	pipe := e.Pipeline()
	return e.exec(ctx, pipe, pipe.Eval(ctx, script, keys, args...), keys)
}

func (e enqueuer) exec(ctx context.Context, pipe redis.Pipeliner, enqueued *redis.Cmd, keys []string) *redis.Cmd {
	queue := queueOf(keys)
	notify(ctx, pipe, queue, 1)
	note := e.load.read(ctx, pipe, queue)
	_, _ = pipe.Exec(ctx) // enqueued has its error; a notification that is lost costs time only
	note()
	return enqueued
}
