package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
)

// only is the runtimes of this tree that have these names, each with its image.
func only(t *testing.T, names ...string) runtimes.Set {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(names, "base") {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("../runtimes", name))); err != nil {
			t.Fatal(err)
		}
	}
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
