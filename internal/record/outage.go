package record

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// outagePause is what a call takes longer that Redis didn't answer. asynq asks for the
// next task without any pause after a question that failed: an outage of Redis would
// cost each process a whole CPU.
const outagePause = 100 * time.Millisecond

// outage is a hook that makes it so, and notes what is answered.
type outage struct{ store *Store }

func (outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		o.after(ctx, err)
		return err
	}
}

func (o outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		o.after(ctx, err)
		return err
	}
}

func (o outage) after(ctx context.Context, err error) {
	var answer redis.Error // also redis.Nil
	if err == nil || errors.As(err, &answer) && !redisconn.Away(err) {
		o.store.uptime.beat(o.store.now())
		return
	}
	select {
	case <-time.After(outagePause):
	case <-ctx.Done():
	}
}

// stall is how long Redis may answer this process nothing before that is an outage: a
// sweeper asks it something each second.
const stall = 4 * time.Second

// uptime is since when Redis has answered this process without a stall, be it of
// Redis, of the way there or of this process.
type uptime struct {
	mu          sync.Mutex
	first, last time.Time
}

func (u *uptime) beat(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.last) > stall {
		u.first = now
	}
	u.last = now
}

// stop is for what else is an outage.
func (u *uptime) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = time.Time{}
}

func (u *uptime) since() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.first
}
