package e2e

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// kinds is of how many images warm sandboxes are kept.
func kinds(t *testing.T) int {
	t.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return len(set.List())
}

// TestWarmWorker: jobs get sandboxes that waited; what waits goes with its worker, however
// that ends.
func TestWarmWorker(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_WARM=1"}})
	full := kinds(t)
	awaitWarm := func(what string) {
		t.Helper()
		if !within(2*time.Minute, func() bool { return len(g.ours()) == full }) {
			t.Fatalf("%s: %d sandboxes, want %d that wait", what, len(g.ours()), full)
		}
	}
	awaitWarm("at first")
	for range 3 {
		r := g.wait(g.submit(job.Spec{Runtime: "python", Source: "print(6 * 7)"}), time.Minute)
		if r.Status != job.Succeeded || r.Stdout != "42\n" {
			t.Errorf("got %+v", r)
		}
		t.Logf("startup %d ms", r.Timing.StartupMS)
		awaitWarm("after a job")
	}
	g.worker.Kill()
	g.worker = g.startWorker("GLOVEBOX_WARM=1")
	r := g.wait(g.submit(job.Spec{Runtime: "bash", Source: "echo ok"}), time.Minute)
	if r.Stdout != "ok\n" {
		t.Errorf("got %+v", r)
	}
	awaitWarm("after a kill") // those of the dead worker are gone
	g.worker.Stop()
	if c := g.ours(); len(c) > 0 {
		t.Errorf("a worker that ended has left %v", c)
	}
}
