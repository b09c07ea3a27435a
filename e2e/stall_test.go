package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestStalledWorker: a worker that stands still for longer than it may is taken for
// dead, and comes back to find its job done by another.
func TestStalledWorker(t *testing.T) {
	t.Parallel()
	steps := []string{failpoint.BeforeStart, failpoint.Running, failpoint.Uploading, failpoint.ResultWritten}
	g := start(t, options{noWorker: true})
	workers, ids := g.atEachStep("pause", steps)
	for _, w := range workers {
		w.Signal(syscall.SIGSTOP)
	}
	g.goOn(steps...)
	g.startWorker()
	var by []string
	for _, id := range ids {
		by = append(by, g.wait(id).Worker)
	}
	for _, w := range workers {
		w.Signal(syscall.SIGCONT)
	}
	time.Sleep(3 * time.Second) // they go on with what they were at
	for i, r := range g.proveEach(ids...) {
		if r.Worker != by[i] {
			t.Errorf("the result was of %s, and is of %s now", by[i], r.Worker)
		}
	}
	for _, w := range workers {
		w.Stop()
	}
}

// TestRedisHangs: Redis stands still at a step of a job, and answers nobody.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true, redisHangs: true})
	_, ids := g.atEachStep("pause", workerSteps)
	g.redis.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { g.redis.Signal(syscall.SIGCONT) })
	g.goOn(workerSteps...)
	time.Sleep(5 * time.Second)
	g.redis.Signal(syscall.SIGCONT)
	again := 0
	for _, r := range g.proveEach(ids...) {
		again += r.Attempt - 1
	}
	if again > 1 { // one had not begun, and may have been told to with an answer that was lost
		t.Errorf("%d attempts were spent: a Redis that hung for 5 s cost jobs their workers", again)
	}
}

// TestStoreHangs: S3 stands still while a job uploads. The job of a worker that is
// killed meanwhile is taken back all the same, and ends once S3 goes on.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	doomed := g.startWorker(g.failpoint("pause", failpoint.Uploading))
	id := g.submit(g.chart())
	g.reached(failpoint.Uploading)
	g.s3.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { g.s3.Signal(syscall.SIGCONT) })
	doomed.Kill()
	g.goOn(failpoint.Uploading)
	g.startWorker()
	gbtest.Eventually(t, "the job is taken back", func() bool {
		j, err := g.client.Get(t.Context(), id)
		return err == nil && (j.Status == job.Queued || j.Attempt == 2)
	})
	g.s3.Signal(syscall.SIGCONT)
	if r := g.wait(id); r.Attempt != 2 {
		t.Errorf("got attempt %d, want the second", r.Attempt)
	}
	g.proveOnce(id)
}

// TestTermWorker: SIGTERM at each step of a job. Nothing is lost, and no attempt spent.
func TestTermWorker(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	workers, ids := g.atEachStep("pause", workerSteps, "GLOVEBOX_GRACE_SECONDS=1")
	for _, w := range workers {
		w.Signal(syscall.SIGTERM)
	}
	time.Sleep(1500 * time.Millisecond) // the grace is over
	g.goOn(workerSteps...)
	late := time.After(25 * time.Second) // a worker's patience with the store is 30 s
	for _, w := range workers {
		select {
		case <-w.Done():
		case <-late:
			t.Fatal("the workers did not end within 25 s of their grace")
		}
	}
	g.startWorker()
	for _, r := range g.proveEach(ids...) {
		if r.Attempt != 1 {
			t.Errorf("got attempt %d: the drain spent one", r.Attempt)
		}
	}
}
