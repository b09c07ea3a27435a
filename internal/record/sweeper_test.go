package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

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

// TestBeatThatCannotBeRead: it holds up nobody else's jobs, and costs its worker none.
func TestBeatThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	jobs := map[string]string{"odd": job.NewID("default"), "dead": job.NewID("default")}
	for worker, id := range jobs {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, worker); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rdb.Set(ctx, workerKey("odd"), "no JSON", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.reap(ctx, "default"); err == nil {
			t.Error("that a beat can't be read is not told")
		}
		w.forward(lostAfter)
	}
	for worker, want := range map[string]int{"odd": 1, "dead": 2} {
		if j, err := s.Get(ctx, jobs[worker]); err != nil || j.Epoch != want {
			t.Errorf("the job of %s: got epoch %d, %v, want %d", worker, j.Epoch, err, want)
		}
	}
}

func TestPoisonedRecordHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	bad, good := job.NewID("default"), job.NewID("default")
	for _, id := range []string{bad, good} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rdb.HSet(ctx, jobKey("default", bad), "epoch", "no number").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "default"); err == nil {
		t.Error("the failure is not told")
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{good + ".1"}) {
		t.Errorf("got tasks %v, want %s.1", got, good)
	}
}

// The same where it is no record at all.
func TestPoisonedEntryHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.ZAdd(ctx, openKey("default"), redis.Z{Member: "poison"}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.Set(ctx, jobKey("default", "poison"), "no hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.Set(ctx, openKey("odd"), "no set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "odd", "default"); err == nil || !strings.Contains(err.Error(), "poison") || !strings.Contains(err.Error(), "tenant odd") {
		t.Errorf("got %v, want both failures told", err)
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{id + ".1"}) {
		t.Errorf("got tasks %v, want %s.1", got, id)
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
