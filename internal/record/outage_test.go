package record

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestIdleWhileRedisIsAway: asynq asks again without a pause when a question failed.
func TestIdleWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	s, err := Open(t.Context(), Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var questions atomic.Int64
	s.rdb.AddHook(counting{&questions})
	srv := s.Server(ServerConfig(4, JobQueues(), 25*time.Millisecond, slog.New(slog.DiscardHandler)), nil)
	if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	server.Kill()
	defer time.Sleep(1200 * time.Millisecond) // go-redis looks once a second whether it is back
	defer server.Restart()
	time.Sleep(2 * time.Second)
	began := questions.Load()
	time.Sleep(2 * time.Second)
	if n := questions.Load() - began; n > 60 { // ten a second for each of three queues
		t.Errorf("it asked %d times in 2 s", n)
	}
}

// counting counts the calls that don't get an answer.
type counting struct{ n *atomic.Int64 }

func (counting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
