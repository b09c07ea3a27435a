package redisconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnconfirmed is what a write fails with that too few replicas have confirmed in time. It is
// done on the primary all the same, and lasts unless that is lost: made once more, it answers
// what it came to.
var ErrUnconfirmed = errors.New("too few replicas of Redis have confirmed the write")

const (
	// confirmTimeout is how long replicas may take. It is shorter than CallTimeout, as the answer comes behind it.
	confirmTimeout = time.Second
	// confirmKey is written before replicas are asked, so that they are asked about something: a script that finds
	// all done may write nothing, and what it found may not have reached them yet.
	confirmKey = "gb:ping"
)

// Replicated runs scripts whose answers are held back until so many replicas have what was written
// up to then.
func Replicated(rdb *redis.Client, replicas int) redis.Scripter {
	if replicas == 0 {
		return rdb
	}
	return replicated{rdb, rdb, replicas}
}

type replicated struct {
	redis.Scripter
	rdb      *redis.Client
	replicas int
}

func (r replicated) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return r.run(ctx, func(pipe redis.Pipeliner) *redis.Cmd { return pipe.EvalSha(ctx, sha1, keys, args...) })
}

func (r replicated) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return r.run(ctx, func(pipe redis.Pipeliner) *redis.Cmd { return pipe.Eval(ctx, script, keys, args...) })
}

// run sends all on one connection: WAIT is about the writes before it on its own.
func (r replicated) run(ctx context.Context, script func(redis.Pipeliner) *redis.Cmd) *redis.Cmd {
	pipe := r.rdb.Pipeline()
	answer := script(pipe)
	confirmed := confirm(ctx, pipe, r.replicas)
	_, _ = pipe.Exec(ctx) // each command has its error
	if answer.Err() != nil && !errors.Is(answer.Err(), redis.Nil) {
		return answer
	}
	if err := confirmed(); err != nil {
		answer.SetErr(err)
	}
	return answer
}

// Confirm fails unless so many replicas have confirmed within a second a write that is made now.
func Confirm(ctx context.Context, rdb *redis.Client, replicas int) error {
	if replicas == 0 {
		return nil
	}
	pipe := rdb.Pipeline()
	confirmed := confirm(ctx, pipe, replicas)
	_, _ = pipe.Exec(ctx)
	return confirmed()
}

func confirm(ctx context.Context, pipe redis.Pipeliner, replicas int) (confirmed func() error) {
	written := pipe.Set(ctx, confirmKey, "1", time.Minute)
	waited := pipe.Do(ctx, "wait", replicas, confirmTimeout.Milliseconds())
	return func() error {
		if written.Err() != nil {
			return written.Err()
		}
		n, err := waited.Int()
		if err == nil && n < replicas {
			err = fmt.Errorf("%w: %d of %d within %s", ErrUnconfirmed, n, replicas, confirmTimeout)
		}
		return err
	}
}
