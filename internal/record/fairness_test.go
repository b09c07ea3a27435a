package record

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// tasksAhead is how many tasks are to be taken before that of the job, of all that are of normal priority.
func (s *Store) tasksAhead(t *testing.T, id string) int {
	t.Helper()
	pending, err := s.rdb.LRange(t.Context(), queueKey(string(job.Normal), "pending"), 0, -1).Result() // the last is the next one
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(pending, id+".1")
	if i < 0 {
		return 0 // it was taken already
	}
	return len(pending) - 1 - i
}

// busyTimes is how many times as many runs may end before a job starts as there may be tasks ahead of it: a busy
// machine may be late with the one job, and not with the others. Without fairness it would be all of the long queue.
const busyTimes = 10

// A tenant with a long queue holds up nobody: a job of another one starts after two of
// its runs a slot at most, whatever priorities both use.
func TestSingleJobBesideALongQueue(t *testing.T) {
	t.Parallel()
	const workers, concurrency, long = 2, 2, 1000
	s := storeOf(t, workers*concurrency)
	var jobs []NewJob
	for range long {
		jobs = append(jobs, NewJob{ID: job.NewID("long"), Spec: job.Spec{Runtime: "bash"}})
	}
	if _, err := s.CreateMany(t.Context(), "long", jobs); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ended := map[string]int{} // tenant → runs
	singles := make(chan int, 8)
	handle := func(ctx context.Context, task *asynq.Task) error {
		var run queue.Run
		if err := json.Unmarshal(task.Payload(), &run); err != nil {
			t.Error(err)
			return nil
		}
		j, err := s.Start(ctx, run.ID, run.Epoch, "w")
		if err != nil {
			return err
		}
		if j.Tenant == "single" {
			mu.Lock()
			singles <- ended["long"]
			mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond) // its run: much longer than what a busy machine may take between two steps
		mu.Lock()
		ended[j.Tenant]++
		mu.Unlock()
		return s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}")})
	}
	for range workers {
		server := s.Queue.Server(queue.ServerConfig(concurrency, queue.Jobs(), 5*time.Millisecond, s.log), nil)
		if err := server.Start(asynq.HandlerFunc(handle)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
	}
	for range 5 {
		const most = runsAhead * workers * concurrency
		ahead := s.tasksAhead(t, s.mustCreate(t, "single", ""))
		if ahead > most {
			t.Errorf("%d tasks are ahead of the single job, want %d at most", ahead, most)
		}
		mu.Lock()
		before := ended["long"] // since it was accepted; it may have started already
		mu.Unlock()
		select {
		case after := <-singles:
			t.Logf("the single job had %d tasks ahead of it, and started after %d runs of the long queue", ahead, after-before)
			if after-before > busyTimes*most {
				t.Errorf("the single job waited for %d runs, want about %d", after-before, most)
			}
		case <-time.After(gbtest.Patience):
			t.Fatal("the single job did not start at all")
		}
	}
	gbtest.Eventually(t, "all jobs have ended", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ended["long"] == long
	})
}

// Many tenants with long queues hold up nobody either, also when they come at once: a newcomer's
// job starts after those that run, two runs a slot and one of each tenant at most. And no slot is idle
// meanwhile.
func TestNewcomerBesideManyLongQueues(t *testing.T) {
	t.Parallel()
	const tenants, slots, long = 10, 4, 60
	s := storeOf(t, slots)
	w := &Sweeper{Records: s, Log: s.log}
	sweeping, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(sweeping) })
	t.Cleanup(func() { stop(); running.Wait() })
	for n := range tenants {
		tenant := fmt.Sprint("long", n)
		var jobs []NewJob
		for range long {
			jobs = append(jobs, NewJob{ID: job.NewID(tenant), Spec: job.Spec{Runtime: "bash"}})
		}
		if _, err := s.CreateMany(t.Context(), tenant, jobs); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	ended := 0
	newcomers := make(chan int, 8)
	server := s.Queue.Server(queue.ServerConfig(slots, queue.Jobs(), 5*time.Millisecond, s.log), nil)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var run queue.Run
		if err := json.Unmarshal(task.Payload(), &run); err != nil {
			t.Error(err)
			return nil
		}
		j, err := s.Start(ctx, run.ID, run.Epoch, "w")
		if err != nil {
			return err
		}
		mu.Lock()
		if strings.HasPrefix(j.Tenant, "newcomer") {
			newcomers <- ended
		}
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		ended++
		mu.Unlock()
		return s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}")})
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for n := range 5 {
		const most = runsAhead*slots + tenants
		ahead := s.tasksAhead(t, s.mustCreate(t, fmt.Sprint("newcomer", n), ""))
		if ahead > most {
			t.Errorf("%d tasks are ahead of a newcomer's, want %d at most", ahead, most)
		}
		mu.Lock()
		before := ended
		mu.Unlock()
		select {
		case after := <-newcomers:
			t.Logf("newcomer %d had %d tasks ahead of it, and started after %d runs", n, ahead, after-before)
			// What ran when it came ends after that, too.
			if after-before > busyTimes*(most+slots) {
				t.Errorf("a newcomer waited for %d runs, want about %d", after-before, most+slots)
			}
		case <-time.After(gbtest.Patience):
			t.Fatal("a newcomer's job did not start at all")
		}
	}
	gbtest.Eventually(t, "all jobs have ended", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ended == tenants*long+5
	})
}

func TestFairShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what          string
		total, others int64
		most          []int64
		want          int64
	}{
		{"nobody has a backlog", 8, 8, nil, 8},
		{"one tenant alone", 8, 0, []int64{8}, 8},
		{"two", 8, 0, []int64{8, 8}, 4},
		{"it is rounded up", 8, 0, []int64{8, 8, 8}, 3},
		{"beside jobs of others", 8, 5, []int64{8, 8, 8}, 1},
		{"more tenants than places", 8, 0, slices.Repeat([]int64{8}, 100), 1},
		{"others have it all", 8, 50, []int64{8, 8}, 1},
		{"quotas leave the rest to others", 20, 0, []int64{20, 1, 1, 1, 2}, 15},
		{"quotas leave more than anybody may", 20, 0, []int64{1, 2, 3}, 20},
		{"a quota above the share", 20, 0, []int64{12, 20}, 10},
	} {
		if got := fairShare(c.total, c.others, c.most); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

// TestCostOfRelease: a pass over tenants whose windows are full changes nothing, and asks
// for many of them at once; what there is room for is released at once, too.
func TestCostOfRelease(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	w := &Sweeper{Records: s, Log: s.log}
	const tenants = 50
	for n := range tenants {
		name := fmt.Sprint("t", n)
		if _, err := s.CreateTenant(t.Context(), name, job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.mustCreate(t, name, "")
		}
	}
	s.recount(t)
	got := s.spends(t, func() { w.pass(t.Context(), releasePass, w.release) })
	t.Logf("full windows of %d tenants: %+v", tenants, got)
	if got.trips > 10 || got.commands > 6*tenants {
		t.Errorf("with every window full: %+v, want 10 round trips and %d commands at most", got, 6*tenants)
	}
	for n := range tenants {
		if err := s.rdb.HSet(t.Context(), tenantKey(fmt.Sprint("t", n)), "terms", `{"quotas":{"running_at_once":2}}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got = s.spends(t, func() { w.pass(t.Context(), releasePass, w.release) })
	t.Logf("room in windows of %d tenants: %+v", tenants, got)
	if got.trips > 10 {
		t.Errorf("with room in every window: %+v, want 10 round trips at most", got)
	}
	if n := len(tasks(t, s, "normal")); n != 30 { // a page of the inspector's
		t.Errorf("there are %d tasks, want a page of them", n)
	}
	for n := range tenants {
		if ids := s.opened(t, fmt.Sprint("t", n)); len(ids) != 2 {
			t.Errorf("tenant %d: %d are released, want 2", n, len(ids))
		}
	}
}

// fill is a release pass in which the tenant has the queue for itself.
func (s *Store) fill(t *testing.T, tenant string) {
	t.Helper()
	list, errs, err := s.waitingTenants(t.Context(), []string{tenant})
	if err == nil && len(list) > 0 {
		var slots int64
		if slots, err = s.slots(t.Context()); err == nil {
			errs, err = s.releaseMany(t.Context(), list, ahead(slots))
		}
	}
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
}

// BenchmarkCreateMany beside BenchmarkEnqueue: what it costs to accept 10,000 jobs of one
// call, and 10,000 bare tasks.
func BenchmarkCreateMany(b *testing.B) {
	s := storeOf(b, 4)
	jobs := make([]NewJob, 10_000)
	for b.Loop() {
		for i := range jobs {
			jobs[i] = NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "python", Source: "print(1)", Metadata: map[string]string{"n": strconv.Itoa(i)}}}
		}
		if created, err := s.CreateMany(b.Context(), "default", jobs); err != nil || len(created) != len(jobs) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(jobs)), "µs/job")
}
