package record

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

func TestReapForgivesAStandstill(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, id, 1, "w1"); err != nil { // its worker has not beaten since
		t.Fatal(err)
	}
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return time.Now().Add(lostAfter) } // Redis, or this process, stood still for as long
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(ctx, id); err != nil || j.State != job.Running || j.Epoch != 1 {
		t.Errorf("got %s in epoch %d, %v: the worker had no chance to beat", j.State, j.Epoch, err)
	}
}

// TestReapTakesAsLongAsItTakes: where a pass takes longer than the time between two, as it
// does over many tenants, jobs of lost workers are taken back all the same.
func TestReapTakesAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	clock := time.Now()
	s.now = func() time.Time { return clock }
	var tenants, lost []string
	for n := range 3 {
		id := job.NewID(fmt.Sprint("tenant", n))
		tenants, lost = append(tenants, fmt.Sprint("tenant", n)), append(lost, id)
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, fmt.Sprint("dead", n)); err != nil {
			t.Fatal(err)
		}
	}
	s.rdb.AddHook(slow(func() { clock = clock.Add(1500 * time.Millisecond) })) // two round trips a pass, at least
	for range 5 {
		if err := w.reap(ctx, tenants...); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(reapInterval)
	}
	for _, id := range lost {
		if j, err := s.Get(ctx, id); err != nil || j.State != job.Queued || j.Epoch != 2 {
			t.Errorf("got %s in epoch %d, %v: a lost worker's job stays with it", j.State, j.Epoch, err)
		}
	}
}

// slow is told of each answer of Redis.
type slow func()

func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { defer f(); return next(ctx, cmd) }
}

func (f slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { defer f(); return next(ctx, cmds) }
}

// TestReapForgivesWithinAPass: what stands still between two steps of a pass is forgiven as well.
func TestReapForgivesWithinAPass(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	clock := time.Now()
	s.now = func() time.Time { return clock }
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, id, 1, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	s.rdb.AddHook(slow(func() { clock = clock.Add(lostAfter) }))
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(ctx, id); err != nil || j.State != job.Running || j.Epoch != 1 {
		t.Errorf("got %s in epoch %d, %v: the worker had no chance to beat", j.State, j.Epoch, err)
	}
}
