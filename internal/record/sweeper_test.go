package record

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// sweeping is a sweeper over a real Redis whose clock the test moves.
func sweeping(t *testing.T) (*Sweeper, *sync.Map) {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	deleted := &sync.Map{}
	return &Sweeper{Records: s, Log: slog.New(slog.DiscardHandler), DeleteObjects: func(_ context.Context, tenant, id string, keep int) error {
		deleted.Store(tenant+"/"+id, keep)
		return nil
	}}, deleted
}

func (w *Sweeper) forward(d time.Duration) {
	w.Records.now = func() time.Time { return time.Now().Add(d) }
	for _, lost := range w.unnamed {
		for k, since := range lost {
			lost[k] = since.Add(-d)
		}
	}
}

func tasks(t *testing.T, s *Store, queue string) []string {
	t.Helper()
	infos, err := asynq.NewInspectorFromRedisClient(s.rdb).ListPendingTasks(queue)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range infos {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestReapTakesBackWhatNoBeatNames(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	lost, kept := NewID("default"), NewID("default")
	for _, id := range []string{lost, kept} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, "w1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Beat(ctx, Worker{ID: "w1", Jobs: []string{kept}}); err != nil {
		t.Fatal(err)
	}
	state := func(id string) string {
		j, err := s.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(j.State, " ", j.Epoch)
	}
	for range 2 { // a job that is not named is not lost at once
		if err := w.reap(ctx, "default"); err != nil {
			t.Fatal(err)
		}
		if got := state(lost); got != "running 1" {
			t.Fatalf("got %s, want running 1", got)
		}
	}
	w.forward(lostAfter)
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if got := state(lost); got != "queued 2" {
		t.Errorf("the lost job: got %s, want queued 2", got)
	}
	if got := state(kept); got != "running 1" {
		t.Errorf("the named job: got %s, want running 1", got)
	}
	if got := tasks(t, s, "normal"); !slices.Contains(got, lost+".2") {
		t.Errorf("got tasks %v, want %s.2 among them", got, lost)
	}
}

func TestReapEndsWhatCannotGoOn(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	s.maxAttempts = 1
	canceled, exhausted := NewID("default"), NewID("default")
	for _, id := range []string{canceled, exhausted} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, "dead"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Cancel(ctx, canceled, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	w.forward(lostAfter)
	if err := w.reap(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]job.Status{canceled: job.Canceled, exhausted: job.InternalError} {
		j, err := s.Get(ctx, id)
		if err != nil || j.State != want {
			t.Errorf("got %s %v, want %s", j.State, err, want)
		}
		if keep, ok := deleted.Load("default/" + id); !ok || keep != 0 {
			t.Errorf("objects of %s: got keep %v, deleted %v; want all deleted", id, keep, ok)
		}
	}
}

func TestSweepFindsRecordsAndDeliveriesWithoutTask(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	queued, ended := NewID("default"), NewID("default")
	for _, id := range []string{queued, ended} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python", Callback: &job.Callback{URL: "https://example.com"}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	j, err := s.Start(ctx, ended, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	for _, queue := range []string{"normal", DeliveryQueue} { // as if each process had died before it enqueued
		if _, err := inspector.DeleteAllPendingTasks(queue); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []time.Duration{0, time.Minute} {
		w.forward(after)
		w.pass(ctx, "open", w.sweepOpen)
		w.pass(ctx, "outbox", w.sweepOutbox)
		jobs, deliveries := tasks(t, s, "normal"), tasks(t, s, DeliveryQueue)
		if after == 0 && (len(jobs) != 0 || len(deliveries) != 0) {
			t.Errorf("enqueued too early: %v %v", jobs, deliveries)
		}
		if after > 0 && (!slices.Equal(jobs, []string{queued + ".1"}) || len(deliveries) != 1) {
			t.Errorf("got tasks %v and deliveries %v, want one of each", jobs, deliveries)
		}
	}
}

func TestSweepGarbage(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	announced, won := NewID("default"), NewID("default")
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
	w.forward(announceDelay + time.Hour)
	w.pass(ctx, "garbage", w.sweepGarbage)
	if n := s.rdb.ZCard(ctx, garbageKey("default")).Val(); n != 0 {
		t.Errorf("%d entries left", n)
	}
}
