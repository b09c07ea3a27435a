package record

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

func TestSweepGarbage(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	announced, won := job.NewID("default"), job.NewID("default")
	for _, id := range []string{announced, won} {
		if err := s.Announce(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Create(ctx, won, job.Spec{Runtime: "python"}, "tenants/default/x"); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(ctx, won, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(ctx, j, Ending{Status: job.Succeeded, ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	w.pass(ctx, "garbage", w.sweepGarbage)
	if keep, ok := deleted.Load("default/" + won); !ok || keep != 1 {
		t.Errorf("got keep %v, swept %v; want the winner's epoch 1 kept", keep, ok)
	}
	if _, ok := deleted.Load("default/" + announced); ok {
		t.Error("an announced job was swept before its time")
	}
	w.forward(announceDelay)
	w.pass(ctx, "garbage", w.sweepGarbage)
	if keep, ok := deleted.Load("default/" + announced); !ok || keep != 0 {
		t.Errorf("got keep %v, swept %v; want nothing kept of what was never created", keep, ok)
	}
	deleted.Clear()
	w.forward(s.retention)
	w.pass(ctx, "garbage", w.sweepGarbage)
	if _, ok := deleted.Load("default/" + won); ok {
		t.Error("the winner was swept a third time while its record lives")
	}
	if err := s.rdb.Del(ctx, jobKey("default", won)).Err(); err != nil { // it expired
		t.Fatal(err)
	}
	w.forward(s.retention + expiredDelay)
	w.pass(ctx, "garbage", w.sweepGarbage)
	if keep, ok := deleted.Load("default/" + won); !ok || keep != 0 {
		t.Errorf("got keep %v, swept %v; want nothing kept of a record that expired", keep, ok)
	}
	if n := s.rdb.ZCard(ctx, garbageKey("default")).Val(); n != 0 {
		t.Errorf("%d entries left", n)
	}
}

func TestObjectsGoWithTheirRecord(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	id := w.ended(t, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"}) // a clean first try
	w.pass(t.Context(), "garbage", w.sweepGarbage)
	if _, ok := deleted.Load("default/" + id); ok {
		t.Error("a job without losers was swept")
	}
	if err := w.Records.rdb.Del(t.Context(), jobKey("default", id)).Err(); err != nil {
		t.Fatal(err)
	}
	w.forward(w.Records.retention + expiredDelay)
	w.pass(t.Context(), "garbage", w.sweepGarbage)
	if keep, ok := deleted.Load("default/" + id); !ok || keep != 0 {
		t.Errorf("got keep %v, swept %v; the objects of an expired record stay for ever", keep, ok)
	}
}

func TestGarbageThatStaysHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	bad := w.ended(t, Ending{Status: job.Failed, Result: []byte("{}"), Dirty: true})
	good := w.ended(t, Ending{Status: job.Failed, Result: []byte("{}"), Dirty: true})
	note := w.DeleteObjects
	w.DeleteObjects = func(ctx context.Context, tenant, id string, keep int) error {
		if id == bad {
			return errors.New("the object is locked")
		}
		return note(ctx, tenant, id, keep)
	}
	if err := w.sweepGarbage(t.Context(), "default"); err == nil {
		t.Error("the failure is not told")
	}
	if _, ok := deleted.Load("default/" + good); !ok {
		t.Error("an object that can't be deleted keeps others from being deleted")
	}
	if due, err := w.due(t.Context(), garbageKey("default")); err != nil || len(due) != 0 {
		t.Errorf("got %v %v, want what failed put off", due, err)
	}
}

func TestBucketThatHangsHoldsUpGarbageOnly(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	s.now = func() time.Time { return time.Now().Add(-time.Minute) }
	w.ended(t, Ending{Status: job.Failed, Result: []byte("{}"), Dirty: true})
	queued := job.NewID("default")
	if err := s.Create(t.Context(), queued, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	s.now = time.Now
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	hangs := make(chan struct{}, 1)
	w.DeleteObjects = func(ctx context.Context, _, _ string, _ int) error {
		hangs <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer cancel()
	<-hangs
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.ZAdd(ctx, openKey("default"), redis.Z{Score: 0, Member: queued}).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(gbtest.AtOnce); len(tasks(t, s, "normal")) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a queued job waits for its task while the bucket hangs")
		}
	}
}

func TestGarbageOfAJobThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Announce(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, "tenants/default/spec"); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(ctx, id, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	w.forward(announceDelay) // it runs for longer than a producer may take
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if _, ok := deleted.Load("default/" + id); ok {
		t.Error("the objects of a running job were deleted")
	}
	if n := s.rdb.ZCard(ctx, garbageKey("default")).Val(); n != 1 {
		t.Errorf("%d entries: an end between the look and the removal would be forgotten", n)
	}
	if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if keep, ok := deleted.Load("default/" + id); !ok || keep != 1 {
		t.Errorf("got keep %v, swept %v; want epoch 1 kept", keep, ok)
	}
}
