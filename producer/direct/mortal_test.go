package direct_test

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// errKilled looks like an answer of Redis: after any other error a Store waits, as Redis may be away.
var errKilled = killed{}

type killed struct{}

func (killed) Error() string { return "killed" }
func (killed) RedisError()   {}

// mortal is a hook of a Redis client. The process dies with its nth command, before that is sent or
// before it is answered: what it would do next it does not do.
type mortal struct {
	mu    sync.Mutex
	left  int // commands until it dies; 0: it lives on
	after bool
	dead  bool
}

func (m *mortal) arm(n int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.after, m.dead = n, after, false
}

func (m *mortal) next() (dead, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return true, false
	}
	if m.left > 0 {
		m.left--
		m.dead = m.left == 0
	}
	return m.dead, m.dead && m.after
}

func (m *mortal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mortal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		dead, after := m.next()
		if dead && !after {
			return errKilled
		}
		err := next(ctx, cmd)
		if after {
			return errKilled
		}
		return err
	}
}

func (m *mortal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		dead, after := m.next()
		if dead && !after {
			return errKilled
		}
		err := next(ctx, cmds)
		if after {
			return errKilled
		}
		return err
	}
}
