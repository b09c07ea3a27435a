package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// The fleet's keys.
const (
	slotsKey       = "gb:slots"
	slotsTotalKey  = "gb:slots:total"
	runtimesKey    = "gb:runtimes"
	imagesKey      = "gb:images"
	keysKey        = "gb:keys"
	secretsKeysKey = "gb:secretkeys"
)

// beatLife is how long a worker lives after its last beat.
const beatLife = 15 * time.Second

func workerKey(worker string) string { return "gb:worker:" + worker }

// slots are those of the fleet, as they were within the last three seconds.
func (s *Store) slots(ctx context.Context) (int64, error) {
	slots, _, err := s.readCapacity(ctx)
	return slots, err
}

// storeOf is a store whose workers run so many jobs at once.
func storeOf(tb testing.TB, slots int) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), Config{URL: gbtest.Redis(tb).URL(), Log: slog.New(slog.NewTextHandler(tb.Output(), nil))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	s.resize(tb, slots)
	return s
}

// resize makes the fleet another, at once and for good.
func (s *Store) resize(tb testing.TB, slots int) {
	tb.Helper()
	if err := s.Fleet.Beat(tb.Context(), fleet.Worker{ID: "w", Concurrency: slots}); err != nil {
		tb.Fatal(err)
	}
	s.rdb.Persist(tb.Context(), workerKey("w"))
	s.recount(tb)
}

// recount makes the store count its slots anew.
func (s *Store) recount(tb testing.TB) {
	tb.Helper()
	if err := s.rdb.Del(tb.Context(), slotsTotalKey).Err(); err != nil {
		tb.Fatal(err)
	}
	s.capacity.mu.Lock()
	defer s.capacity.mu.Unlock()
	s.capacity.read = time.Time{}
}

func (s *Store) mustCreate(t *testing.T, tenant string, priority job.Priority) string {
	t.Helper()
	id := job.NewID(tenant)
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "bash", Priority: priority}, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *Store) mustStart(t *testing.T, id string, epoch int) Record {
	t.Helper()
	j, err := s.Start(t.Context(), id, epoch, "w")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (s *Store) mustEnd(t *testing.T, j Record) {
	t.Helper()
	if err := s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
}

// opened lists the tenant's released jobs.
func (s *Store) opened(t *testing.T, tenant string) []string {
	t.Helper()
	ids, err := s.rdb.ZRange(t.Context(), openKey(tenant), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// behind lists the tenant's backlog of one priority.
func (s *Store) behind(t *testing.T, tenant string, p job.Priority) []string {
	t.Helper()
	ids, err := s.rdb.ZRange(t.Context(), backlogKey(tenant, p), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestWindow(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	var ids []string
	for range 10 {
		ids = append(ids, s.mustCreate(t, "default", ""))
	}
	expect := func(what string, open, behind []string) {
		t.Helper()
		got := s.opened(t, "default")
		slices.Sort(got)
		want := slices.Sorted(slices.Values(open))
		if !slices.Equal(got, want) {
			t.Errorf("%s: released are %v, want %v", what, got, want)
		}
		if got := s.behind(t, "default", job.Normal); !slices.Equal(got, behind) {
			t.Errorf("%s: in the backlog are %v, want %v", what, got, behind)
		}
		for _, id := range open {
			if s.rdb.Exists(t.Context(), "asynq:{normal}:t:"+id+".1").Val() == 0 {
				t.Errorf("%s: %s is released and has no task", what, id)
			}
		}
		usage := s.usage(t, "default")
		if want := int64(len(open) + len(behind)); usage.JobsQueued != want {
			t.Errorf("%s: %d jobs are queued, want %d", what, usage.JobsQueued, want)
		}
	}
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	expect("10 created", ids[:4], ids[4:])
	first := s.mustStart(t, ids[0], 1)
	expect("one started", ids[1:4], ids[4:])
	if j, err := s.Get(t.Context(), ids[4]); err != nil || !j.Released.IsZero() || first.Released.IsZero() || first.Released.After(first.Started) {
		t.Errorf("%v: the one that waits was released %s, the first %s", err, j.Released, first.Released)
	}
	s.mustEnd(t, first)
	expect("one ended", ids[1:5], ids[5:])
	for _, id := range []string{ids[7], ids[2]} {
		if got, err := s.Cancel(t.Context(), id, []byte("{}")); err != nil || got != job.Canceled {
			t.Fatalf("cancel: got %v, %v", got, err)
		}
	}
	expect("one of each canceled", []string{ids[1], ids[3], ids[4], ids[5]}, []string{ids[6], ids[8], ids[9]})
	s.mustStart(t, ids[1], 1)
	if got, err := s.Requeue(t.Context(), ids[1], 1, "w", CostNothing, 0); err != nil || got != RequeueOK {
		t.Fatalf("requeue: got %v, %v", got, err)
	}
	if n := len(s.opened(t, "default")); n != 4 {
		t.Errorf("after a requeue %d are released, want 4", n)
	}
	// Other tenants have windows of their own.
	if other := s.mustCreate(t, "other", ""); !slices.Equal(s.opened(t, "other"), []string{other}) {
		t.Error("a job of another tenant waits")
	}
}

func (s *Store) usage(t *testing.T, tenant string) job.TenantUsage {
	t.Helper()
	r, err := s.ReadTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return r.Usage
}

// A window that grows is filled by the sweeper, one that shrinks takes nothing back.
func TestWindowThatChanges(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	for range 12 {
		s.mustCreate(t, "default", "")
	}
	tenant, err := s.CreateTenant(t.Context(), "default", job.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	quota := func(n int64) {
		t.Helper()
		if tenant, err = s.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{Quotas: job.Quotas{RunningAtOnce: n}}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want int) {
		t.Helper()
		w.passDue(t.Context())
		if n := len(s.opened(t, "default")); n != want {
			t.Errorf("%s: %d are released, want %d", what, n, want)
		}
		if n := len(tasks(t, s, "normal")); n != want {
			t.Errorf("%s: there are %d tasks, want %d", what, n, want)
		}
	}
	expect("one slot", 2)
	s.resize(t, 3)
	expect("three slots", 6)
	quota(8)
	expect("a quota above them", 6)
	s.resize(t, 5)
	expect("five slots and the quota", 8)
	quota(3)
	expect("a smaller quota", 8)
	for i, id := range s.opened(t, "default") {
		s.mustEnd(t, s.mustStart(t, id, 1))
		if n := len(s.opened(t, "default")); n != max(7-i, 3) {
			t.Errorf("%d ended under a smaller quota: %d are released, want %d", i+1, n, max(7-i, 3))
		}
	}
	if n := len(s.behind(t, "default", job.Normal)); n != 1 {
		t.Errorf("%d are left in the backlog, want 1", n)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2)
	expect := func(what string, want int64) {
		t.Helper()
		s.recount(t)
		for range 2 { // counted, then known
			if got, err := s.slots(t.Context()); err != nil || got != want {
				t.Errorf("%s: got %d, %v, want %d", what, got, err, want)
			}
		}
	}
	beat := func(w fleet.Worker) {
		t.Helper()
		if err := s.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		s.rdb.Persist(t.Context(), workerKey(w.ID))
	}
	expect("one worker", 2)
	beat(fleet.Worker{ID: "x", Concurrency: 5})
	expect("two", 7)
	beat(fleet.Worker{ID: "x", Concurrency: 5, Paused: "no S3"})
	expect("one of them paused", 2)
	beat(fleet.Worker{ID: "x", Concurrency: 6})
	expect("back again, with more", 8)
	if err := s.rdb.Del(t.Context(), workerKey("w")).Err(); err != nil { // its beat has lapsed
		t.Fatal(err)
	}
	expect("one of them lost", 6)
	if n := s.rdb.HLen(t.Context(), slotsKey).Val(); n != 1 {
		t.Errorf("%d workers are remembered, want 1", n)
	}
	if err := s.Fleet.Leave(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	expect("none", 0)
	if window, err := s.window(t.Context(), "default"); err != nil || window != runsAhead {
		t.Errorf("nobody there: the window is %d, %v, want %d", window, err, runsAhead)
	}
}

// None starves: of ten jobs from the backlog six are high, three normal and one low.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
		t.Fatal(err)
	}
	first := s.mustCreate(t, "default", job.Low)
	var jobs []NewJob
	for _, p := range []job.Priority{job.Low, job.Normal, job.High} {
		for range 60 {
			jobs = append(jobs, NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash", Priority: p}})
		}
	}
	if _, err := s.CreateMany(t.Context(), "default", jobs); err != nil {
		t.Fatal(err)
	}
	s.mustEnd(t, s.mustStart(t, first, 1))
	ran := map[job.Priority]int{}
	for i := range jobs {
		ids := s.opened(t, "default")
		if len(ids) != 1 {
			t.Fatalf("after %d runs %d jobs are released, want 1", i, len(ids))
		}
		j := s.mustStart(t, ids[0], 1)
		ran[j.Priority]++
		s.mustEnd(t, j)
		switch i + 1 {
		case 10, 50, 100:
			n := (i + 1) / 10
			if ran[job.High] != 6*n || ran[job.Normal] != 3*n || ran[job.Low] != n {
				t.Errorf("after %d runs: got %v, want 6 to 3 to 1", i+1, ran)
			}
		case 140: // no high is left: 3 to 1
			if ran[job.High] != 60 || ran[job.Normal] != 60 || ran[job.Low] != 20 {
				t.Errorf("after %d runs: got %v, want high and normal done and 20 low", i+1, ran)
			}
		}
	}
	if len(s.opened(t, "default")) != 0 || len(s.behind(t, "default", job.Low)) != 0 {
		t.Error("something is left")
	}
}

// Whoever dies between a script and the task that it asks for loses nothing.
func TestReleasedWithoutATask(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	w := &Sweeper{Records: s, Log: s.log}
	var ids []string
	for range 3 {
		ids = append(ids, s.mustCreate(t, "default", ""))
	}
	first := s.mustStart(t, ids[0], 1)
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err) // as if who created them had died before
	}
	// As if the worker had died just after the script that ends the job.
	ending := Ending{Status: job.Succeeded, Result: []byte("{}")}
	if err := endScript.Run(t.Context(), s.rdb, "default", s.finishArgs(t.Context(), first, ending, script.Args{"epoch": 1, "worker": "w", "from": ""})).Err(); err != nil {
		t.Fatal(err)
	}
	if got := s.opened(t, "default"); len(got) != 2 || len(tasks(t, s, "normal")) != 0 {
		t.Fatalf("released are %v, tasks %v; want two without any", got, tasks(t, s, "normal"))
	}
	w.forward(sweepDelay)
	if err := w.sweepOpen(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values([]string{ids[1] + ".1", ids[2] + ".1"}))
	if got := tasks(t, s, "normal"); !slices.Equal(got, want) {
		t.Errorf("got tasks %v, want %v", got, want)
	}
}

func TestCreateMany(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 3)
	var jobs []NewJob
	for i := range 2*createMost + 17 {
		jobs = append(jobs, NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash", Source: fmt.Sprint(i), Metadata: map[string]string{"n": fmt.Sprint(i)}}})
	}
	large := strings.Repeat("x", createMostBytes/3)
	for i := range 5 {
		jobs[i].Spec.Source = large
	}
	jobs[9] = NewJob{ID: jobs[9].ID, Spec: job.Spec{Image: "a@b", Callback: &job.Callback{URL: "https://example.com/"}, Priority: job.High}, SpecRef: "k"}
	for round, want := range []error{nil, ErrExists} { // a replay changes nothing
		created, err := s.CreateMany(t.Context(), "default", jobs)
		if err != nil || len(created) != len(jobs) {
			t.Fatalf("got %d of %d, %v", len(created), len(jobs), err)
		}
		for i, c := range created {
			if c.ID != jobs[i].ID || !errors.Is(c.Err, want) {
				t.Fatalf("round %d: job %d is %s, %v; want %s, %v", round, i, c.ID, c.Err, jobs[i].ID, want)
			}
		}
	}
	for i, n := range jobs {
		j, err := s.Get(t.Context(), n.ID)
		if err != nil || j.State != job.Queued || j.Epoch != 1 || i != 9 && (j.Spec == nil || j.Spec.Source != n.Spec.Source || j.Metadata["n"] != fmt.Sprint(i)) {
			t.Fatalf("job %d: got %+v, %v", i, j, err)
		}
		if i == 9 && (j.SpecRef != "k" || j.Spec != nil || j.Image != "a@b" || j.Callback != "https://example.com/" || j.Priority != job.High) {
			t.Errorf("got %+v", j)
		}
	}
	if open := s.opened(t, "default"); len(open) != 6 || len(tasks(t, s, "normal")) != 6 {
		t.Errorf("released are %v, want the first 6 with a task each", open)
	}
	if got := s.behind(t, "default", job.Normal); len(got) != len(jobs)-7 || got[0] != jobs[6].ID || got[len(got)-1] != jobs[len(jobs)-1].ID {
		t.Errorf("the backlog of %d is not in the order of the jobs", len(got))
	}
	if _, err := s.CreateMany(t.Context(), "default", []NewJob{{ID: job.NewID("other")}}); err == nil {
		t.Error("a job of another tenant was created")
	}
	if created, err := s.CreateMany(t.Context(), "default", nil); err != nil || len(created) != 0 {
		t.Errorf("nothing to create: got %v, %v", created, err)
	}
}

// The quota is full in the middle: what fits is accepted, and nothing is left of the rest.
func TestCreateManyBeyondTheQuota(t *testing.T) {
	t.Parallel()
	for name, quotas := range map[string]job.Quotas{
		"jobs":  {JobsQueued: 130},
		"bytes": {BytesQueued: 130*int64(len(`{"runtime":"bash","limits":{}}`)) + 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOf(t, 2)
			if _, err := s.CreateTenant(t.Context(), "default", job.Terms{Quotas: quotas}); err != nil {
				t.Fatal(err)
			}
			var jobs []NewJob
			for range 150 {
				jobs = append(jobs, NewJob{ID: job.NewID("default"), JSON: []byte(`{"runtime":"bash","limits":{}}`)})
			}
			created, err := s.CreateMany(t.Context(), "default", jobs)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range created {
				var refused *job.Error
				full := errors.As(c.Err, &refused) && refused.Code == job.CodeQuotaExceeded
				_, err := s.Get(t.Context(), c.ID)
				if full != (i >= 130) || errors.Is(err, job.ErrNotFound) != full {
					t.Fatalf("job %d: got %v, its record: %v", i, c.Err, err)
				}
			}
			if usage := s.usage(t, "default"); usage.JobsQueued != 130 {
				t.Errorf("got %+v", usage)
			}
		})
	}
}

// Redis forgets scripts when it starts, and a call in the middle may fail.
func TestCreateManyThatFails(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	s, err := Open(t.Context(), Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	jobs := make([]NewJob, 3*createMost)
	for i := range jobs {
		jobs[i] = NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "bash"}}
	}
	jobs[2*createMost].ID = "no id"
	created, err := s.CreateMany(t.Context(), "default", jobs)
	if err == nil || len(created) != 2*createMost {
		t.Fatalf("got %d created, %v; want an error after %d", len(created), err, 2*createMost)
	}
	jobs[2*createMost].ID = job.NewID("default")
	server.Kill()
	if created, err := s.CreateMany(t.Context(), "default", jobs); err == nil || len(created) != 0 {
		t.Errorf("without Redis: got %d created, %v", len(created), err)
	}
	server.Restart()
	created, err = s.CreateMany(t.Context(), "default", jobs)
	if err != nil || len(created) != len(jobs) {
		t.Fatalf("got %d created, %v", len(created), err)
	}
	for i, c := range created {
		if errors.Is(c.Err, ErrExists) != (i < 2*createMost) {
			t.Fatalf("job %d: got %v", i, c.Err)
		}
	}
}
