package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
)

// fleet is apis and workers on a real Redis. Each has a Store of its own, as a process has.
type fleet struct {
	t         *testing.T
	size      size
	admin     *redis.Client
	apis      []*record.Store
	sandboxes *sandboxes
	bucket    bucket
	counted   *prometheus.Registry // what all of them count, together
	log       *slog.Logger
}

const (
	apis    = 2
	runtime = "bash"
)

// newFleet starts the processes, and waits until every slot of the fleet is known.
func newFleet(t *testing.T, z size) *fleet {
	t.Helper()
	server := gbtest.Redis(t)
	options, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := set.Lookup(runtime)
	f := &fleet{
		t: t, size: z, admin: redis.NewClient(options), sandboxes: newSandboxes(bash.Image()), counted: prometheus.NewRegistry(),
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	t.Cleanup(func() { f.admin.Close() })
	observer := metrics.NewRecords(f.counted, set.Names())
	open := func(url string) *record.Store {
		s, err := record.Open(t.Context(), record.Config{URL: url, Observer: observer, Log: f.log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	var stores []*record.Store // of workers
	for range apis {
		f.apis = append(f.apis, open(server.API()))
	}
	for range z.workers {
		stores = append(stores, open(server.Worker()))
	}
	life, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() }) // before their Stores are closed
	for _, s := range f.apis {
		sweeper := &record.Sweeper{Records: s, Log: f.log, DeleteObjects: func(context.Context, string, string, int) error { return nil }}
		running.Go(func() { sweeper.Run(life) })
	}
	for n, s := range stores {
		w, err := worker.New(worker.Config{
			ID: fmt.Sprintf("w%05d", n), Version: "simulated", Records: s, Objects: &f.bucket, Sandboxes: f.sandboxes,
			Runtimes: set, Concurrency: z.slots, MemoryMB: int64(z.slots) * 4096, Grace: time.Millisecond, Log: f.log,
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := w.Run(life); err != nil {
				t.Errorf("worker: %v", err)
			}
		})
	}
	gbtest.Eventually(t, "all workers take jobs", func() bool {
		return f.admin.HLen(t.Context(), "gb:slots").Val() == int64(z.workers)
	})
	return f
}

// submit has each tenant submit what it asks for, at its times, and returns once all is accepted.
func (f *fleet) submit(tenants []tenant) {
	f.t.Helper()
	for _, x := range tenants {
		terms := job.Terms{Quotas: job.Quotas{RunningAtOnce: int64(x.quota)}}
		if _, err := f.apis[0].CreateTenant(f.t.Context(), x.name, terms); err != nil {
			f.t.Fatal(err)
		}
	}
	var asking sync.WaitGroup
	for i, x := range tenants {
		asking.Go(func() {
			for _, a := range x.arrivals {
				select {
				case <-time.After(time.Until(f.sandboxes.began.Add(a.at))):
				case <-f.t.Context().Done():
					return
				}
				f.create(i, x, a)
			}
		})
	}
	asking.Wait()
}

// create submits jobs that come together.
func (f *fleet) create(i int, x tenant, a arrival) {
	jobs := make([]record.NewJob, len(a.runs))
	asked := time.Since(f.sandboxes.began)
	for n, takes := range a.runs {
		jobs[n] = record.NewJob{ID: job.NewID(x.name), Spec: job.Spec{Runtime: runtime, Source: ":", Priority: x.priority}}
		f.sandboxes.expect(jobs[n].ID, simulated{tenant: i, asked: asked, takes: takes})
	}
	created, err := f.apis[i%apis].CreateMany(f.t.Context(), x.name, jobs)
	if err != nil {
		f.t.Errorf("tenant %s: %v", x.name, err)
	}
	for _, c := range created {
		if c.Err != nil {
			f.t.Errorf("tenant %s: %v", x.name, c.Err)
		}
	}
}

// ended is how many jobs have run to their end in a sandbox.
func (f *fleet) ended() int {
	f.sandboxes.mu.Lock()
	defer f.sandboxes.mu.Unlock()
	return len(f.sandboxes.runs)
}

// count is the sum of a counter of all processes.
func (f *fleet) count(name string) (sum float64) {
	f.t.Helper()
	families, err := f.counted.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// check fails the test where a job was lost, ran twice, or has not ended once.
func (f *fleet) check() {
	t := f.t
	t.Helper()
	gbtest.Eventually(t, "every job's record has ended", func() bool { return f.count("glovebox_jobs_ended_total") >= float64(f.size.jobs) })
	if n := f.count("glovebox_jobs_ended_total"); n != float64(f.size.jobs) {
		t.Errorf("%v records ended, want %d", n, f.size.jobs)
	}
	if n := f.count("glovebox_jobs_requeued_total") + f.count("glovebox_jobs_taken_back_total"); n != 0 {
		t.Errorf("%v jobs went back to the queue, want none", n)
	}
	if len(f.sandboxes.over) != f.size.jobs {
		t.Errorf("%d jobs ran, want %d", len(f.sandboxes.over), f.size.jobs)
	}
	var looking sync.WaitGroup
	ids := make(chan string)
	for range 16 {
		looking.Go(func() {
			for id := range ids {
				if state, err := f.apis[0].StateOf(t.Context(), id); err != nil || state != job.Succeeded {
					t.Errorf("job %s: got %q, %v, want %q", id, state, err, job.Succeeded)
				}
			}
		})
	}
	for id, n := range f.sandboxes.over {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
		ids <- id
	}
	close(ids)
	looking.Wait()
	d, err := f.apis[0].Depth(t.Context())
	if err != nil || d.Queued+d.Running+d.Backlog != 0 {
		t.Errorf("in the end there are %+v, %v: want no job queued or running", d, err)
	}
}
