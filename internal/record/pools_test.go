package record

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// passes makes the release pass.
func (s *Store) passes(t *testing.T, tenants ...string) {
	t.Helper()
	w := &Sweeper{Records: s, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := w.release(t.Context(), tenants...); err != nil {
		t.Fatal(err)
	}
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

// TestPoolHoldsUpNothingElse: jobs of a pool with one slot wait, however many they are, and those that came later for other workers don't
// wait for them, be they of the same tenant or not.
func TestPoolHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	s.labelled(t, "gpu", "1 gpu=yes gpu")
	few := s.placedJobs(t, "default", "gpu=yes", 100)
	if n := s.releasedOf(t, "default", few); n != 0 {
		t.Errorf("%d jobs are released before anybody has looked at the pool", n)
	}
	s.passes(t, "default")
	if n := s.releasedOf(t, "default", few); n != 2 {
		t.Errorf("%d jobs are released of a pool with one slot, want 2", n)
	}
	if got := s.tasksOf(t, "gpu=yes"); !slices.Equal(got, few[:2]) {
		t.Errorf("the pool's queue has %v, want the first two", got)
	}
	for _, id := range few[:2] {
		if s.rdb.Exists(t.Context(), "asynq:{normal}:t:"+id+".1").Val() != 0 {
			t.Error("a task of the pool is in the queue of all workers")
		}
	}
	others := s.placedJobs(t, "default", "", 8)
	if n := s.releasedOf(t, "default", others); n != 8 {
		t.Errorf("%d of 8 jobs behind them are released", n)
	}
	// The end of one releases the next of its pool, and a new one of a pool with room is released at once.
	j, err := s.StartOn(t.Context(), few[0], 1, Starter{ID: "gpu", Labels: job.Labels{"gpu": "yes"}, Only: []string{"gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	s.mustEnd(t, j)
	if n := s.releasedOf(t, "default", few); n != 2 {
		t.Errorf("%d jobs of the pool are released once one has ended, want 2", n)
	}
	s.labelled(t, "more", "8 gpu=yes gpu")
	s.passes(t, "default")
	if n := s.releasedOf(t, "default", few); n != 18 {
		t.Errorf("%d jobs of the pool are released once it has 9 slots, want 18", n)
	}
	if n, err := s.rdb.ZCard(t.Context(), backlogKeys("default")[3]).Result(); err != nil || n != 100-19 {
		t.Errorf("%d jobs of pools wait, %v, want 81", n, err)
	}
	usage, err := s.ReadTenant(t.Context(), "default")
	if err == nil || !errors.Is(err, job.ErrNoTenant) {
		t.Errorf("got %v, %v", usage, err)
	}
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
	s.labelled(t, "gpu", "1 gpu=yes gpu")
	s.passes(t, "acme")
	if n := s.releasedOf(t, "acme", waits); n != 1 {
		t.Error("it is not released although a worker has its labels")
	}
	if got := s.tasksOf(t, "gpu=yes"); !slices.Equal(got, waits) {
		t.Errorf("the queue has %v", got)
	}
	// The worker is gone before it has begun: the tenant's one place goes to a job that can run.
	s.dies(t, "gpu")
	others := s.placedJobs(t, "acme", "", 1)
	s.passes(t, "acme")
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

// TestPoolFairness: tenants share a pool as they share all workers, and one that names its workers in many ways gets no more.
func TestPoolFairness(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	s.labelled(t, "pool", "8 a=1,b=1,c=1 a")
	one := s.placedJobs(t, "one", "a=1", 40)
	var many []string
	for _, placement := range []string{"a=1", "a=1,b=1", "a=1,c=1", "a=1,b=1,c=1"} {
		many = append(many, s.placedJobs(t, "many", placement, 40)...)
	}
	s.passes(t, "many", "one")
	if a, b := s.releasedOf(t, "one", one), s.releasedOf(t, "many", many); a != 8 || b != 8 {
		t.Errorf("of 16 jobs that are ahead %d are of one and %d of many placements", a, b)
	}
}

// TestTooManyPlacements: a tenant can't fill workers with queues.
func TestTooManyPlacements(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	for i := range mostPools {
		s.placedJobs(t, "default", "a="+string(rune('a'+i)), 1)
	}
	labels := job.Labels{"a": "z"}
	err := s.Create(t.Context(), job.NewID("default"), job.Spec{Runtime: "bash", Placement: labels}, "")
	if job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("got %v", err)
	}
	if _, err := s.OpenSession(t.Context(), "default", job.SessionSettings{Runtime: "python", Placement: labels}, nil); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a session: got %v", err)
	}
	s.placedJobs(t, "default", "a=a", 1) // one that it has
	// A day after they ended, all are forgotten.
	for _, k := range s.rdb.Keys(t.Context(), "gb:{default}:backlog:*").Val() {
		s.rdb.Del(t.Context(), k)
	}
	s.now = func() time.Time { return time.Now().Add(poolLife + time.Hour) }
	s.passes(t, "default")
	if n := s.rdb.Exists(t.Context(), poolsKey("default"), pooledKey, windowsKey("default")).Val(); n != 0 {
		t.Errorf("%d keys are left of them", n)
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

// TestPoolForLater: a job with a placement that waits longer for its time, or for approval, than a placement is known runs nevertheless.
func TestPoolForLater(t *testing.T) {
	t.Parallel()
	placement := job.Labels{"zone": "a"}
	for name, wait := range map[string]func(s *Store) (id string, after func()){
		"its time": func(s *Store) (string, func()) {
			id := job.NewID("default")
			if err := s.Create(t.Context(), id, job.Spec{Runtime: "bash", Placement: placement, RunAt: time.Now().Add(48 * time.Hour)}, ""); err != nil {
				t.Fatal(err)
			}
			return id, func() {}
		},
		"approval": func(s *Store) (string, func()) {
			j := s.heldFor(t, job.Spec{Placement: placement}, 72*time.Hour)
			return j.ID, func() {
				if err := s.Approve(t.Context(), j, approvalOf(j)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		s := storeOf(t, 2)
		s.labelled(t, "one", "1 zone=a")
		id, after := wait(s)
		began := time.Now()
		s.passes(t, "default")
		for _, later := range []time.Duration{25 * time.Hour, 47 * time.Hour} {
			s.now = func() time.Time { return began.Add(later) }
			s.passes(t, "default")
			if n := s.releasedOf(t, "default", []string{id}); n != 0 {
				t.Errorf("%s: it is released %s after it came", name, later)
			}
		}
		s.now = func() time.Time { return began.Add(48*time.Hour + time.Minute) }
		after()
		s.passes(t, "default")
		s.passes(t, "default")
		if got := s.tasksOf(t, "zone=a"); !slices.Equal(got, []string{id}) {
			t.Errorf("%s: the pool's queue has %v, want the job", name, got)
		}
		// Once nothing waits, the placement is forgotten.
		j, err := s.StartOn(t.Context(), id, 1, Starter{ID: "one", Labels: placement})
		if err != nil {
			t.Fatal(name, err)
		}
		s.mustEnd(t, j)
		s.now = func() time.Time { return began.Add(80 * time.Hour) }
		s.passes(t, "default")
		if n := s.rdb.Exists(t.Context(), poolsKey("default"), pooledKey).Val(); n != 0 {
			t.Errorf("%s: %d keys are left of the placement", name, n)
		}
	}
}

// TestPoolsForgotten: of a tenant's placements those are forgotten that nobody uses, a job that comes meanwhile keeps its own, and a tenant of which
// nothing can be read loses nothing.
func TestPoolsForgotten(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.placedJobs(t, "default", "zone=used", 1)
	s.placedJobs(t, "spoiled", "zone=used", 1)
	began := time.Now()
	s.now = func() time.Time { return began.Add(poolLife + time.Hour) }
	old := redis.Z{Score: float64(ms(began)), Member: "zone=old"}
	s.rdb.ZAdd(ctx, poolsKey("default"), old, redis.Z{Score: float64(ms(began)), Member: "no placement"}, redis.Z{Score: float64(ms(s.now().Add(-time.Hour))), Member: "zone=late"})
	s.rdb.HSet(ctx, tenantKey("spoiled"), "terms", "{")
	s.rdb.HSet(ctx, lineKey("default"), turnField("zone=old"), 3, turnField("zone=used"), 4)
	s.rdb.ZAdd(ctx, poolsKey("other"), old)
	s.rdb.ZAdd(ctx, pooledKey, redis.Z{Score: float64(ms(began)), Member: "other"})
	w := &Sweeper{Records: s, Log: s.log}
	if err := w.release(ctx, "default", "other", "spoiled"); err == nil || !strings.Contains(err.Error(), "spoiled") {
		t.Errorf("got %v, want a failure of the spoiled one", err)
	}
	if got := s.rdb.ZRange(ctx, poolsKey("default"), 0, -1).Val(); !slices.Equal(got, []string{"zone=late", "zone=used"}) {
		t.Errorf("the placements are %q", got)
	}
	if got := s.rdb.ZRange(ctx, pooledKey, 0, -1).Val(); !slices.Equal(got, []string{"default", "spoiled"}) {
		t.Errorf("the tenants are %q", got)
	}
	if got := s.rdb.HMGet(ctx, lineKey("default"), turnField("zone=old"), turnField("zone=used")).Val(); got[0] != nil || got[1] != "4" {
		t.Errorf("the turns of a placement that is forgotten, and of one that isn't, are %v", got)
	}
	// As if it had come after the look: what is forgotten goes by when it was noted last.
	s.rdb.ZAdd(ctx, poolsKey("default"), redis.Z{Score: float64(ms(s.now())), Member: "zone=old"})
	if err := s.forgetPools(ctx, "default", oldPools{lapsed: []string{"zone=old"}, before: ms(s.now().Add(-poolLife))}); err != nil {
		t.Fatal(err)
	}
	if s.rdb.ZScore(ctx, poolsKey("default"), "zone=old").Err() != nil {
		t.Error("a placement is forgotten that a job has just noted")
	}
}

// TestPoolTurnsOfPriorities: of two pools that take one job each by turns, both come to their jobs of low priority, although others are left.
func TestPoolTurnsOfPriorities(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 1), t.Context()
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{RunningAtOnce: 2}}); err != nil {
		t.Fatal(err)
	}
	workers := map[string]Starter{}
	for _, pool := range []string{"a", "b"} {
		labels := job.Labels{"pool": pool}
		s.labelled(t, pool, "4 "+labels.String()+" pool")
		workers[labels.String()] = Starter{ID: pool, Labels: labels, Only: []string{"pool"}}
		for _, p := range []job.Priority{job.High, job.Normal, job.Low} {
			for range 40 {
				if err := s.Create(ctx, job.NewID("acme"), job.Spec{Runtime: "bash", Placement: labels, Priority: p}, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s.passes(t, "acme")
	ended := map[string]map[job.Priority]int{"pool=a": {}, "pool=b": {}}
	for range 30 {
		open := s.opened(t, "acme")
		if len(open) != 2 {
			t.Fatalf("%d jobs are released, want 2", len(open))
		}
		for _, id := range open { // both end before the next two are released, so that the pools take turns
			j, err := s.Get(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if j, err = s.StartOn(ctx, id, j.Epoch, workers[j.Placement]); err != nil {
				t.Fatal(err)
			}
			s.mustEnd(t, j)
			ended[j.Placement][j.Priority]++
		}
	}
	for pool, of := range ended {
		if of[job.High] < of[job.Normal] || of[job.Normal] < of[job.Low] || of[job.Low] == 0 {
			t.Errorf("of %s ended are %v, want them as 6 to 3 to 1", pool, of)
		}
	}
}

// TestPoolTurnSpoiled: whatever a worker writes where it is noted whose turn it is, jobs are released.
func TestPoolTurnSpoiled(t *testing.T) {
	t.Parallel()
	for _, spoiled := range []string{"x", "1.5", "", "9223372036854775807", "-3", "720720"} {
		s := storeOf(t, 4)
		s.labelled(t, "a", "1 pool=a pool")
		s.labelled(t, "b", "1 pool=b pool")
		ids := append(s.placedJobs(t, "default", "pool=a", 1), s.placedJobs(t, "default", "pool=b", 1)...)
		s.rdb.HSet(t.Context(), lineKey("default"), "pool", spoiled, turnField("pool=a"), spoiled)
		s.passes(t, "default")
		if n := s.releasedOf(t, "default", ids); n != 2 {
			t.Errorf("%q: %d of 2 jobs are released", spoiled, n)
		}
	}
}
