package simulation

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is what every run of the tests simulates, large what `make simulate` does.
var (
	small = size{workers: 10, slots: 4, tenants: 20, jobs: 1000, mean: 400 * time.Millisecond, spread: 1, fair: 0.7}
	large = size{workers: 200, slots: 4, tenants: 50, jobs: 100_000, mean: 2 * time.Second, spread: 1, fair: 0.95}
)

// runsAhead is how many runs a slot may have ahead of another tenant's job: docs/adr/0007-backlog.md.
const runsAhead = 2

// TestFleet has tenants of very different appetites ask a fleet for all that it can do: no job is lost, none
// runs twice, and none of the tenants gets much more of its part than another.
//
//	GLOVEBOX_SIMULATE_FLEET=DIR      the large one, whose plots and figures are written there (make simulate)
//	GLOVEBOX_SIMULATE_SEED=N         the workload of that seed
//	GLOVEBOX_SIMULATE_JOBS, _WORKERS, _SPREAD  another size
func TestFleet(t *testing.T) {
	z, dir := small, os.Getenv("GLOVEBOX_SIMULATE_FLEET")
	if dir != "" {
		z = large
	}
	z.seed = uint64(gbtest.Number(t, "GLOVEBOX_SIMULATE_SEED", 1)) //nolint:gosec // Number has checked it
	z.jobs, z.workers = gbtest.Number(t, "GLOVEBOX_SIMULATE_JOBS", z.jobs), gbtest.Number(t, "GLOVEBOX_SIMULATE_WORKERS", z.workers)
	z.spread = float64(gbtest.Number(t, "GLOVEBOX_SIMULATE_SPREAD", int(z.spread)))
	t.Logf("%+v, busy for %s", z, z.span())

	f, tenants := newFleet(t, z), draw(z)
	idle := f.idle(z.mean)
	if dir != "" {
		idle = f.idle(12 * time.Second) // two beats, and more
	}
	before, stats := f.counters(f.t.Context()), f.commands()
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	var watch sync.WaitGroup
	var samples []sample
	f.sandboxes.began = time.Now()
	watch.Go(func() { samples = f.watch(watching, z.span()/200) })
	f.submit(tenants)
	f.await()
	stop()
	watch.Wait()
	after, spent := f.counters(f.t.Context()), dearest(stats, f.commands(), z.jobs)
	f.check()

	list := windows(f.sandboxes.runs, quotasOf(tenants), 5*z.mean, runsAhead*z.mean)
	shares := normalised(list)
	fair := jain(shares)
	r := report{size: z, tenants: tenants, samples: samples, windows: list, shares: shares, fair: fair, runs: f.sandboxes.runs, idle: idle, spent: spent}
	r.cpu, r.commands, r.clients = after.cpu-before.cpu, (after.commands-before.commands)/float64(z.jobs), after.clients
	r.memory = after.memory - before.memory
	r.puts, r.lists = float64(f.bucket.puts.Load())/float64(z.jobs), float64(f.bucket.lists.Load())/float64(z.jobs)
	t.Log("\n" + r.text())
	if len(shares) < z.tenants/2 {
		t.Errorf("%d tenants had to share, want half of %d at least: the workload asks for too little", len(shares), z.tenants)
	}
	if z.spread == 1 && fair < z.fair {
		t.Errorf("Jain's index is %.3f, want %.2f at least: got for what they were entitled to %v", fair, z.fair, shares)
	}
	if dir != "" {
		r.write(t, dir)
	}
}

// await waits until all jobs have run, for as long as some go on ending.
func (f *fleet) await() {
	f.t.Helper()
	for last, at := 0, time.Now(); ; time.Sleep(20 * time.Millisecond) {
		n := f.ended()
		if n >= f.size.jobs {
			return
		}
		if n > last {
			last, at = n, time.Now()
		}
		if time.Since(at) > gbtest.Patience {
			f.t.Fatalf("%d of %d jobs have run, and none has ended for %s", n, f.size.jobs, gbtest.Patience)
		}
	}
}

// idle measures what a fleet that has nothing to do costs Redis, a second.
func (f *fleet) idle(long time.Duration) counters {
	before, began := f.counters(f.t.Context()), time.Now()
	time.Sleep(long) // it is what is measured
	after, s := f.counters(f.t.Context()), time.Since(began).Seconds()
	return counters{cpu: (after.cpu - before.cpu) / s, commands: (after.commands - before.commands) / s, clients: after.clients}
}

func quotasOf(tenants []tenant) (list []int) {
	for _, x := range tenants {
		list = append(list, x.quota)
	}
	return list
}
