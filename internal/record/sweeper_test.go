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

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
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
	return sweepingOver(s)
}

func sweepingOver(s *Store) (*Sweeper, *sync.Map) {
	deleted := &sync.Map{}
	return &Sweeper{Records: s, Log: slog.New(slog.DiscardHandler), DeleteObjects: func(_ context.Context, tenant, id string, keep int) error {
		deleted.Store(tenant+"/"+id, keep)
		return nil
	}}, deleted
}

// forward is what d later is: a time in which Redis answered, and the reaper looked.
func (w *Sweeper) forward(d time.Duration) { w.forwardTo(time.Now().Add(d)) }

// forwardTo stops the clock then: however long a busy machine takes is no outage.
func (w *Sweeper) forwardTo(now time.Time) {
	w.Records.at(now)
	w.Records.uptime.mu.Lock()
	defer w.Records.uptime.mu.Unlock()
	w.Records.uptime.last = now
}

// passDue is both passes that are made each second.
func (w *Sweeper) passDue(ctx context.Context) {
	w.pass(ctx, releasePass, w.release)
	w.pass(ctx, deadlinePass, w.sweepDeadlines)
}

func tasks(t *testing.T, s *Store, queue string) []string {
	t.Helper()
	return queuetest.Tasks(t, s.rdb, queue)
}

func TestReapTakesBackWhatNoBeatNames(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	lost, kept := job.NewID("default"), job.NewID("default")
	for _, id := range []string{lost, kept} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, "w1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Fleet.Beat(ctx, fleet.Worker{ID: "w1", Jobs: []string{kept}}); err != nil {
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
	canceled, exhausted := job.NewID("default"), job.NewID("default")
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
	began := time.Now()
	s.at(began)
	queued, ended := job.NewID("default"), job.NewID("default")
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
	for _, queue := range []string{"normal", queue.Delivery} { // as if each process had died before it enqueued
		if _, err := inspector.DeleteAllPendingTasks(queue); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []time.Duration{0, time.Minute} {
		w.forwardTo(began.Add(after))
		w.pass(ctx, "open", w.sweepOpen)
		w.pass(ctx, "outbox", w.sweepOutbox)
		jobs, deliveries := tasks(t, s, "normal"), tasks(t, s, queue.Delivery)
		if after == 0 && (len(jobs) != 0 || len(deliveries) != 0) {
			t.Errorf("enqueued too early: %v %v", jobs, deliveries)
		}
		if after > 0 && (!slices.Equal(jobs, []string{queued + ".1"}) || len(deliveries) != 1) {
			t.Errorf("got tasks %v and deliveries %v, want one of each", jobs, deliveries)
		}
	}
}

// ended is a job that a worker ended in epoch 1.
func (w *Sweeper) ended(t *testing.T, e Ending) string {
	t.Helper()
	id := job.NewID("default")
	if err := w.Records.Create(t.Context(), id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	j, err := w.Records.Start(t.Context(), id, 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Records.End(t.Context(), j, e); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSweepFindsArchivedTasks(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := asynq.NewInspectorFromRedisClient(s.rdb).ArchiveTask("normal", id+".1"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if got := tasks(t, s, "normal"); len(got) != 1 {
		t.Errorf("got tasks %v: a job whose task was archived waits for ever", got)
	}
}

func TestTwoSweepersTakeAJobBackOnce(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	other := &Sweeper{Records: s, DeleteObjects: w.DeleteObjects, Log: w.Log}
	var ids []string
	for range 20 {
		id := job.NewID("default")
		ids = append(ids, id)
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, "dead"); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for _, one := range []*Sweeper{w, other} {
		if err := one.reap(ctx, "default"); err != nil {
			t.Fatal(err)
		}
		s.uptime.mu.Lock()
		s.uptime.first = s.uptime.first.Add(-lostAfter)
		s.uptime.mu.Unlock()
		for k, since := range one.unnamed {
			one.unnamed[k] = since.Add(-lostAfter)
		}
		both.Go(func() {
			if err := one.reap(ctx, "default"); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for _, id := range ids {
		if j, err := s.Get(ctx, id); err != nil || j.State != job.Queued || j.Epoch != 2 || j.Attempts != 1 {
			t.Errorf("got %s in epoch %d after %d attempts, %v", j.State, j.Epoch, j.Attempts, err)
		}
	}
}

// Who the tenants are is asked at each pass: one that came a moment ago is swept too.
func TestSweepsEveryTenant(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	s, ctx := w.Records, t.Context()
	tenants := []string{"acme", "default", strings.Repeat("z", 32)}
	var lost []string
	for _, tenant := range tenants {
		queued, running, announced := job.NewID(tenant), job.NewID(tenant), job.NewID(tenant)
		for _, id := range []string{queued, running} {
			if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Start(ctx, running, 1, "dead"); err != nil {
			t.Fatal(err)
		}
		if err := s.Announce(ctx, announced); err != nil {
			t.Fatal(err)
		}
		lost = append(lost, queued+".1", running+".2")
		w.pass(ctx, "reap", w.reap)
	}
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	w.forward(announceDelay + time.Minute)
	w.pass(ctx, "reap", w.reap)
	w.pass(ctx, "open", w.sweepOpen)
	w.pass(ctx, "garbage", w.sweepGarbage)
	slices.Sort(lost)
	if got := tasks(t, s, "normal"); !slices.Equal(got, lost) {
		t.Errorf("got tasks %v, want %v", got, lost)
	}
	n := 0
	deleted.Range(func(any, any) bool { n++; return true })
	if n != len(tenants) {
		t.Errorf("garbage of %d tenants was deleted, want %d", n, len(tenants))
	}
}
