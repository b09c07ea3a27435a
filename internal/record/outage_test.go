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
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
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
	srv := s.Queue.Server(queue.ServerConfig(4, queue.Jobs(), 25*time.Millisecond, slog.New(slog.DiscardHandler)), nil)
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

// TestReaperWaitsForWrites: while Redis answers reads and refuses writes, as one that is full does,
// no worker can write its beats, and no job is taken from it for that: not when writes work again either.
func TestReaperWaitsForWrites(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	s, err := Open(t.Context(), Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w, _ := sweepingOver(s)
	ctx, clock := t.Context(), time.Now()
	s.now = func() time.Time { return clock }
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, id, 1, "w1"); err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	t.Cleanup(func() { admin.Close() })
	full := func(most string) {
		t.Helper()
		if err := admin.ConfigSet(ctx, "maxmemory", most).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	for range 10 { // the beats of w1 have expired by now
		clock = clock.Add(reapInterval)
		if err := w.reap(ctx, "default"); err == nil {
			t.Error("the reaper goes on though nothing can be written")
		}
	}
	full("0")
	for range 5 { // w1 has not beaten yet, but may
		clock = clock.Add(reapInterval)
		if err := w.reap(ctx, "default"); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := s.Get(ctx, id); err != nil || j.State != job.Running || j.Epoch != 1 {
		t.Fatalf("got %s in epoch %d, %v: it was taken from a worker that could write nothing", j.State, j.Epoch, err)
	}
	for range 3 {
		clock = clock.Add(reapInterval)
		if err := w.reap(ctx, "default"); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := s.Get(ctx, id); err != nil || j.State != job.Queued {
		t.Errorf("got %s, %v: a worker that says nothing though it could keeps its job", j.State, err)
	}
}
