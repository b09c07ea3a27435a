package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// labelled adds a worker that lives for good: "4 zone=a pool", as workersOf has it.
func (s *Store) labelled(t *testing.T, id, text string) {
	t.Helper()
	k := workersOf(t, text)
	if err := s.Fleet.Beat(t.Context(), fleet.Worker{ID: id, Concurrency: int(k.Slots), Labels: k.Labels, Only: k.Only}); err != nil {
		t.Fatal(err)
	}
	s.rdb.Persist(t.Context(), workerKey(id))
	s.recount(t)
}

// dies has a worker's beat lapse.
func (s *Store) dies(t *testing.T, id string) {
	t.Helper()
	if err := s.rdb.Del(t.Context(), workerKey(id)).Err(); err != nil {
		t.Fatal(err)
	}
	s.recount(t)
}

// create makes jobs with that placement.
func (s *Store) placedJobs(t *testing.T, tenant, placement string, n int) (ids []string) {
	t.Helper()
	labels, err := job.ParseLabels(placement, job.MaxPlacement)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		id := job.NewID(tenant)
		if err := s.Create(t.Context(), id, job.Spec{Runtime: "bash", Placement: labels}, ""); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// releasedOf counts those of the jobs that are released.
func (s *Store) releasedOf(t *testing.T, tenant string, ids []string) (n int) {
	t.Helper()
	open := s.opened(t, tenant)
	for _, id := range ids {
		if slices.Contains(open, id) {
			n++
		}
	}
	return n
}

// tasksOf lists what is in the queue of a pool.
func (s *Store) tasksOf(t *testing.T, placement string) (ids []string) {
	t.Helper()
	tasks, err := s.rdb.LRange(t.Context(), queueKey(queue.RunTask("", 1, job.Normal, time.Time{}).InPool(placement).Queue(), "pending"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range tasks {
		id, _, _ = strings.Cut(id, ".")
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	return ids
}

// TestPoolQuota: running_at_once holds for all pools together, and none of them keeps the others from it.
func TestPoolQuota(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 10), t.Context()
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{RunningAtOnce: 3}}); err != nil {
		t.Fatal(err)
	}
	s.labelled(t, "a", "10 pool=a pool")
	s.labelled(t, "b", "10 pool=b pool")
	jobs := map[string][]string{"pool=a": s.placedJobs(t, "acme", "pool=a", 20), "pool=b": s.placedJobs(t, "acme", "pool=b", 20)}
	s.passes(t, "acme")
	jobs[""] = s.placedJobs(t, "acme", "", 20) // all that it may have is released by now
	workers := map[string]Starter{"": {ID: "w"}, "pool=a": {ID: "a", Labels: job.Labels{"pool": "a"}}, "pool=b": {ID: "b", Labels: job.Labels{"pool": "b"}}}
	ended := map[string]int{}
	for range 60 {
		open, running := s.opened(t, "acme"), s.rdb.HLen(ctx, runningKey("acme")).Val()
		if int64(len(open))+running != 3 && len(open) > 0 && ended[""]+ended["pool=a"]+ended["pool=b"] < 57 {
			t.Fatalf("%d are released and %d run, want 3 in all", len(open), running)
		}
		j, err := s.Get(ctx, open[0])
		if err != nil {
			t.Fatal(err)
		}
		if j, err = s.StartOn(ctx, j.ID, j.Epoch, workers[j.Placement]); err != nil {
			t.Fatal(err)
		}
		s.mustEnd(t, j)
		ended[j.Placement]++
		if sum := ended[""] + ended["pool=a"] + ended["pool=b"]; sum == 30 && (ended[""] < 5 || ended["pool=a"] < 5 || ended["pool=b"] < 5) {
			t.Errorf("after 30 ends they are %v", ended)
		}
		s.passes(t, "acme")
	}
	if ended[""] != 20 || ended["pool=a"] != 20 || ended["pool=b"] != 20 {
		t.Errorf("ended are %v, want 20 of each", ended)
	}
}

// TestPoolWithoutWorkers: jobs whose labels no worker has wait without a place in the tenant's quota, and go on once one has them.
func TestPoolWithoutWorkers(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
		t.Fatal(err)
	}
	waits := s.placedJobs(t, "acme", "gpu=yes", 1)
	s.passes(t, "acme")
	if n := s.releasedOf(t, "acme", waits); n != 0 {
		t.Error("it is released, and no worker has its labels")
	}
	if pools, err := s.Fleet.Pools(ctx); err != nil || len(pools) != 1 || pools["gpu=yes"] != 0 {
		t.Errorf("the pools in use are %v, %v", pools, err)
	}
	unserved := func(want int64) {
		t.Helper()
		if d, err := s.Depth(ctx); err != nil || d.Unserved != want {
			t.Errorf("got %+v, %v, want %d jobs unserved", d, err, want)
		}
	}
	unserved(1)
	s.labelled(t, "gpu", "1 gpu=yes gpu")
	s.passes(t, "acme")
	if n := s.releasedOf(t, "acme", waits); n != 1 {
		t.Error("it is not released although a worker has its labels")
	}
	if got := s.tasksOf(t, "gpu=yes"); !slices.Equal(got, waits) {
		t.Errorf("the queue has %v", got)
	}
	// Jobs of a pool that is full wait for their turn, and are served.
	full := s.placedJobs(t, "other", "gpu=yes", 9)
	s.passes(t, "acme", "other")
	if d, err := s.Depth(ctx); err != nil || d.Backlog == 0 {
		t.Errorf("got %+v, %v, want a backlog", d, err)
	}
	unserved(0)
	// The worker is gone before it has begun: the tenant's one place goes to a job that can run.
	s.dies(t, "gpu")
	others := s.placedJobs(t, "acme", "", 1)
	s.passes(t, "acme", "other")
	unserved(int64(len(waits) + len(full)))
	if s.releasedOf(t, "acme", waits) != 0 || s.releasedOf(t, "acme", others) != 1 {
		t.Errorf("released are %v, want the one that can run", s.opened(t, "acme"))
	}
	s.labelled(t, "gpu", "1 gpu=yes gpu")
	if _, err := s.StartOn(ctx, waits[0], 1, Starter{ID: "gpu", Labels: job.Labels{"gpu": "yes"}}); !errors.Is(err, ErrStale) {
		t.Errorf("the task from before starts it out of its window: %v", err)
	}
	s.mustEnd(t, s.mustStart(t, others[0], 1))
	s.passes(t, "acme")
	if _, err := s.StartOn(ctx, waits[0], 2, Starter{ID: "gpu", Labels: job.Labels{"gpu": "yes"}}); err != nil {
		t.Error(err)
	}
}

// TestPoolOfALostWorker: what ran on a worker that died goes to another with its labels, and to no other.
func TestPoolOfALostWorker(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.labelled(t, "one", "1 zone=a,disk=ssd")
	s.labelled(t, "two", "1 zone=a")
	ids := s.placedJobs(t, "default", "zone=a", 1)
	s.passes(t, "default")
	for name, w := range map[string]Starter{
		"none": {ID: "w"}, "another value": {ID: "x", Labels: job.Labels{"zone": "b"}}, "a longer one": {ID: "x", Labels: job.Labels{"zone": "ab"}},
		"kept for others": {ID: "x", Labels: job.Labels{"zone": "a", "pool": "exams"}, Only: []string{"pool"}},
	} {
		if _, err := s.StartOn(ctx, ids[0], 1, w); !errors.Is(err, ErrMisplaced) {
			t.Errorf("a worker with labels: %s: got %v", name, err)
		}
	}
	j, err := s.StartOn(ctx, ids[0], 1, Starter{ID: "one", Labels: job.Labels{"zone": "a", "disk": "ssd"}})
	if err != nil || j.Placement != "zone=a" {
		t.Fatalf("got %+v, %v", j, err)
	}
	s.rdb.Del(ctx, queueKey("normal:@zone=a", "pending"))
	s.dies(t, "one")
	if word, err := s.Requeue(ctx, j.ID, 1, "one", CostAttempt, 0); err != nil || word != RequeueOK {
		t.Fatalf("got %s, %v", word, err)
	}
	if got := s.tasksOf(t, "zone=a"); !slices.Equal(got, ids) {
		t.Errorf("the pool's queue has %v", got)
	}
	// The sweeper finds one whose task was lost, too.
	s.rdb.FlushDB(ctx)
	ids = s.placedJobs(t, "default", "zone=a", 1)
	s.labelled(t, "two", "1 zone=a")
	s.passes(t, "default")
	s.rdb.Del(ctx, queueKey("normal:@zone=a", "pending"), queueKey("normal:@zone=a", "t:"+ids[0]+".1"))
	w := &Sweeper{Records: s, Log: s.log}
	s.now = func() time.Time { return time.Now().Add(sweepDelay + time.Second) }
	if err := w.sweepOpen(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if got := s.tasksOf(t, "zone=a"); !slices.Equal(got, ids) {
		t.Errorf("after a sweep the pool's queue has %v", got)
	}
	if j, err = s.StartOn(ctx, ids[0], 1, Starter{ID: "two", Labels: job.Labels{"zone": "a"}}); err != nil {
		t.Fatal(err)
	}
	s.mustEnd(t, j)
	if n := s.rdb.SCard(ctx, placedKey("default", "zone=a")).Val(); n != 0 {
		t.Errorf("%d jobs are said to be released or running of the pool", n)
	}
}

// TestPoolSessions: a session goes into the queue of the workers that have its labels.
func TestPoolSessions(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	x, err := s.OpenSession(t.Context(), "default", job.SessionSettings{Runtime: "python", Placement: job.Labels{"zone": "a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.rdb.LRange(t.Context(), queueKey("sessions:python@zone=a", "pending"), 0, -1).Val(); !slices.Equal(got, []string{x.ID + ".1"}) {
		t.Errorf("its queue has %v", got)
	}
	s.passes(t, "default")
	if pools, err := s.Fleet.Pools(t.Context()); err != nil || len(pools) != 1 {
		t.Errorf("the pools in use are %v, %v", pools, err)
	}
}
