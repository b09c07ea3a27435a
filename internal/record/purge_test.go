package record

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	ending := Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 1000}
	other := s.done(t, job.Spec{}, ending)
	j := s.done(t, job.Spec{}, ending)
	if err := s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: eventsKey("default", j.ID), Values: []string{"type", "stdout"}}).Err(); err != nil {
		t.Fatal(err)
	}
	s.mustStore(t, 2000)
	if err := s.Purge(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, j.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("get: got %v, want job.ErrNotFound", err)
	}
	if err := s.Purge(ctx, j.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("purge again: got %v, want job.ErrNotFound", err)
	}
	if got := fmt.Sprint(s.traces(t, j.ID)); got != "[gb:{default}:garbage gb:{default}:kept]" && got != "[gb:{default}:kept gb:{default}:garbage]" {
		t.Errorf("left are %s: want what says that there are objects, and how large", got)
	}
	s.mustStore(t, 2000) // as long as the objects are there

	note := w.DeleteObjects
	w.DeleteObjects = func(context.Context, string, string, int) error { return errors.New("the bucket is away") }
	if err := w.sweepGarbage(ctx, "default"); err == nil {
		t.Error("the failure is not told")
	}
	s.mustStore(t, 2000)
	w.DeleteObjects = note
	w.forward(garbageRetry + time.Second)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if keep, ok := deleted.Load("default/" + j.ID); !ok || keep != 0 {
		t.Errorf("got keep %v, swept %v; want all of it deleted", keep, ok)
	}
	if left := s.traces(t, j.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.mustStore(t, 1000)
	if _, err := s.Get(ctx, other.ID); err != nil {
		t.Errorf("another job: %v", err)
	}
}

// Purged is for a caller that deleted the objects without the sweeper, which looks once more.
func TestPurged(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 1000})
	if err := errors.Join(s.Purge(ctx, j.ID), s.Purged(ctx, j.ID), s.Purged(ctx, j.ID)); err != nil {
		t.Fatal(err)
	}
	s.mustStore(t, 0)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if _, ok := deleted.Load("default/" + j.ID); ok {
		t.Error("swept before its time")
	}
	w.forward(secondSweepDelay + time.Second)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if _, ok := deleted.Load("default/" + j.ID); !ok {
		t.Error("what a try that lost wrote late stays for ever")
	}
	if left := s.traces(t, j.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.mustStore(t, 0)
}

// A job that is purged between a sweeper's look at its record and its note of when to
// look again is due now, not when the record would have expired.
func TestPurgeWhileItIsSwept(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Dirty: true})
	w.DeleteObjects = func(ctx context.Context, _, _ string, _ int) error { return s.Purge(ctx, j.ID) }
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Second)
	if due, err := w.due(ctx, garbageKey("default")); err != nil || len(due) != 1 {
		t.Errorf("got %v due, %v; want the job that was purged", due, err)
	}
}

func TestPurgeOfAJobThatHasNotEnded(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("queued: got %v, want job.ErrNotEnded", err)
	}
	if _, err := s.Start(t.Context(), id, 1, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("running: got %v, want job.ErrNotEnded", err)
	}
	for _, id := range []string{job.NewID("default"), "nothing"} {
		if err := s.Purge(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: got %v, want job.ErrNotFound", id, err)
		}
	}
}
