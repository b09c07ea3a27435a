package record

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// outagePause is what a call takes longer that Redis didn't answer. asynq asks for the
// next task without any pause after a question that failed: an outage of Redis would
// cost each process a whole CPU.
const outagePause = 100 * time.Millisecond

// outage is a hook that makes it so.
type outage struct{}

func (outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		pauseAfter(ctx, err)
		return err
	}
}

func (outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		pauseAfter(ctx, err)
		return err
	}
}

func pauseAfter(ctx context.Context, err error) {
	var answer redis.Error // also redis.Nil
	if err == nil || errors.As(err, &answer) && !strings.HasPrefix(err.Error(), "LOADING ") {
		return
	}
	select {
	case <-time.After(outagePause):
	case <-ctx.Done():
	}
}
