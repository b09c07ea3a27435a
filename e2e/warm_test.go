package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// kinds is of how many images warm sandboxes are kept while no job comes.
func kinds(t *testing.T) int {
	t.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]bool{}
	for _, r := range set.Core() {
		images[r.Image()] = true
	}
	return len(images)
}

// oneOfEach are the settings of a worker on which as many sandboxes wait as kinds says, whatever jobs come: what its quarter of the
// memory has room for besides, it would have of the runtimes whose jobs come often. Those of no image here take nothing.
func oneOfEach(t *testing.T, concurrency int64) []string {
	t.Helper()
	const idle = 40 // MiB, of a sandbox that waits
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	built := strings.Fields(podmanSays(t, "", "images", "--filter", "reference=localhost/glovebox/*", "--format", "{{.Repository}}:{{.Tag}}"))
	waits := idle * int64(kinds(t))
	var largest, snapshots int64
	for _, r := range set.List() {
		if r.Preload == nil || !slices.Contains(built, r.Image()) {
			continue
		}
		largest, snapshots = max(largest, r.Preload.MemoryMB), snapshots+r.Preload.MemoryMB
		if r.Core {
			waits += r.Preload.MemoryMB
		}
	}
	making := idle + largest // a snapshot is made in one
	return []string{"GLOVEBOX_WARM=1", fmt.Sprintf("GLOVEBOX_MEMORY_MB=%d", 4*(waits+concurrency*largest+snapshots+making))}
}

// scrape is a figure of the worker's metrics, "" for one that isn't there.
func scrape(t *testing.T, addr, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindSubmatch(b)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// TestWarmWorker: jobs get sandboxes that waited; what waits goes with its worker, however
// that ends.
func TestWarmWorker(t *testing.T) {
	t.Parallel()
	metrics := gbtest.Addr(t)
	env := append(oneOfEach(t, 2), "GLOVEBOX_METRICS_ADDR="+metrics)
	g := start(t, options{workerEnv: env})
	full := kinds(t)
	awaitWarm := func(what string) {
		t.Helper()
		if !within(patience, func() bool { return len(g.alive()) == full }) {
			t.Fatalf("%s: %d sandboxes, want %d that wait", what, len(g.alive()), full)
		}
	}
	awaitWarm("at first")
	if !within(patience, func() bool { return scrape(t, metrics, `glovebox_worker_warm_sandboxes{runtime="python"}`) == "1" }) {
		t.Fatal("no sandbox for Python is ready")
	}
	for range 3 {
		r := g.wait(g.submit(job.Spec{Runtime: "python", Source: "print(6 * 7)"}))
		if r.Status != job.Succeeded || r.Stdout != "42\n" {
			t.Errorf("got %+v", r)
		}
		awaitWarm("after a job")
		if wanted := scrape(t, metrics, `glovebox_worker_warm_wanted{runtime="python"}`); wanted != "1" {
			t.Errorf("%s of Python are to wait, want 1: there is memory for no more", wanted)
		}
	}
	// Those after the first may have come before the next one was ready.
	started := `glovebox_sandbox_startup_seconds_count{runtime="python",start=`
	if scrape(t, metrics, started+`"warm"}`) == "" && scrape(t, metrics, started+`"preloaded"}`) == "" {
		t.Error("no job had a warm sandbox")
	}
	dead := g.ours()[0].Labels["run.glovebox.worker"]
	ofTheDead := func(c container) bool { return c.Labels["run.glovebox.worker"] == dead }
	g.worker.Kill()
	g.worker = g.startWorker(env...)
	r := g.wait(g.submit(job.Spec{Runtime: "bash", Source: "echo ok"}))
	if r.Stdout != "ok\n" {
		t.Errorf("got %+v", r)
	}
	awaitWarm("after a kill")
	if !within(patience, func() bool { return !slices.ContainsFunc(g.ours(), ofTheDead) }) {
		t.Errorf("a worker that was killed has left some of %v", g.ours())
	}
	g.worker.Stop()
	if c := g.ours(); len(c) > 0 {
		t.Errorf("a worker that ended has left %v", c)
	}
}

// stopWorkers waits until what is there is the workers' own, and sees that it goes with them. The containers of one
// that was killed have no sandbox any more, but are there until it has been absent for some 45 s.
func (c *chaos) stopWorkers() {
	if !within(patience, func() bool { return len(c.alive()) == c.mostWarm && c.owners() == len(c.workers) }) {
		c.tb.Errorf("%d sandboxes of %d workers at the end, want %d that wait, of %d", len(c.alive()), c.owners(), c.mostWarm, len(c.workers))
	}
	for _, w := range c.workers {
		w.Stop()
	}
	if left := c.ours(); len(left) > 0 {
		c.tb.Errorf("workers that ended have left %v", left)
	}
}

// owners counts the workers that have anything in Podman, be they alive or dead.
func (g *glovebox) owners() int {
	workers := map[string]bool{}
	for _, c := range g.ours() {
		workers[c.Labels["run.glovebox.worker"]] = true
	}
	return len(workers)
}
