package worker_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
)

// only is the runtimes of this tree that have these names, each with its image.
func only(t *testing.T, names ...string) runtimes.Set {
	t.Helper()
	return loadDir(t, folders(t, names...))
}

// folders copies those of these runtimes.
func folders(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range append(names, "base") {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("../runtimes", name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func loadDir(t *testing.T, dir string) runtimes.Set {
	t.Helper()
	set, err := runtimes.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// sweeps does what an api does for jobs that wait.
func (g *glovebox) sweeps() {
	var sweeping sync.WaitGroup
	ctx, stop := context.WithCancel(g.t.Context())
	sweeper := &record.Sweeper{Records: g.records, Log: slog.New(slog.DiscardHandler), DeleteObjects: g.objects.SweepJob, DeleteUpload: g.objects.SweepUpload}
	sweeping.Go(func() { sweeper.Run(ctx) })
	g.t.Cleanup(func() { stop(); sweeping.Wait() })
}

// TestJobGoesWhereItsRuntimeIs: of two idle workers one lacks the jobs' runtime. No job
// spends an attempt there, and no job waits for the next poll of the other.
func TestJobGoesWhereItsRuntimeIs(t *testing.T) {
	t.Parallel()
	const poll = 10 * time.Second
	lacks := start(t, func(c *worker.Config) { c.Runtimes, c.Poll = only(t, "node"), poll })
	has := lacks.another(func(c *worker.Config) { c.Runtimes, c.Poll = only(t, "bash"), poll })
	late := 0
	for n := range 8 {
		r := has.result(has.submit(job.Spec{Runtime: "sh", Source: fmt.Sprint("echo ", n)})) // an alias
		if r.Status != job.Succeeded || r.Stdout != fmt.Sprintln(n) || r.Attempt != 1 || r.Worker != has.id {
			t.Fatalf("job %d: got %s, attempt %d on %s, %+v", n, r.Status, r.Attempt, r.Worker, r.Error)
		}
		if r.Timing.QueueMS > poll.Milliseconds()/2 {
			late++ // the machine may have stood still
		}
	}
	if late > 2 {
		t.Errorf("%d jobs of 8 waited for half a poll although their worker was idle", late)
	}
	if r := lacks.result(lacks.submit(job.Spec{Runtime: "node", Source: "console.log(1)"})); r.Worker != lacks.id {
		t.Errorf("a job of the other's runtime: got %s on %s, %+v", r.Status, r.Worker, r.Error)
	}
}

// TestJobWaitsForItsRuntime: a job whose runtime no living worker offers waits, spends
// nothing, and holds up neither its tenant's other jobs nor anybody's processor.
func TestJobWaitsForItsRuntime(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Runtimes, c.Concurrency = only(t, "node"), 1 })
	var waits []string
	for range 4 { // more than its tenant may have in the queue at once
		waits = append(waits, g.submit(job.Spec{Runtime: "bash", Source: "echo hello"}))
	}
	if r := g.result(g.submit(job.Spec{Runtime: "node", Source: "console.log(1)"})); r.Stdout != "1\n" {
		t.Errorf("a job behind those that wait: got %s, %+v", r.Status, r.Error)
	}
	g.says("no worker offers")
	for _, id := range waits {
		if j := g.state(id, job.Queued); j.State != job.Queued || j.Attempts != 0 {
			t.Errorf("got %s with %d attempts; want it queued as it came", j.State, j.Attempts)
		}
	}
	g.sweeps()
	g.another(func(c *worker.Config) { c.Runtimes = only(t, "bash") })
	for _, id := range waits {
		if r := g.result(id); r.Stdout != "hello\n" || r.Attempt != 1 {
			t.Errorf("once a worker offers it: got %s at attempt %d, %+v", r.Status, r.Attempt, r.Error)
		}
	}
}

// TestRuntimeBuiltLater: a worker that is told that there is another image looks at once, says which are there by then, and takes its jobs.
func TestRuntimeBuiltLater(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "podman")
	built, _ := only(t, "bash").Lookup("bash")
	dir := folders(t, "bash", "node")
	if err := os.WriteFile(filepath.Join(dir, "bash", "another"), []byte(rand.Text()), 0o600); err != nil { // so its image has another name
		t.Fatal(err)
	}
	set := loadDir(t, dir)
	later, _ := set.Lookup("bash")
	said := make(chan []string, 100)
	g := start(t, func(c *worker.Config) { c.Runtimes, c.OnRuntimes = set, func(images []string) { said <- images } })
	if images := <-said; slices.Contains(images, later.Image()) || len(images) != 1 {
		t.Fatalf("at its start there are %v", images)
	}
	operator, err := record.Open(t.Context(), record.Config{URL: g.redis.URL()}) // as glovebox dev is
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	podmanDoes(t, "tag", built.Image(), later.Image())
	t.Cleanup(func() { podmanDoes(t, "rmi", "--ignore", later.Image()) })
	asked := time.Now()
	gbtest.Eventually(t, "the worker listens", func() bool {
		told, err := operator.Fleet.Wanted(t.Context(), fleet.ImagesOffer)
		if err != nil {
			t.Fatal(err)
		}
		return told
	})
	for images := range said {
		if slices.Contains(images, later.Image()) {
			break
		}
	}
	if took := time.Since(asked); took > 15*time.Second { // it looks once a minute in any case
		t.Errorf("it looked %s after it was told", took)
	}
	if r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo hello"})); r.Stdout != "hello\n" || r.Attempt != 1 {
		t.Errorf("got %s at attempt %d, %+v", r.Status, r.Attempt, r.Error)
	}
}

// podmanDoes runs a command of Podman as the service does.
func podmanDoes(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "podman", args...)
	cmd.Env = append(cmd.Environ(), gbtest.PodmanEnv()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
