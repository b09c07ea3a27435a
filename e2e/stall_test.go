package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
)

// TestStalledWorker: a worker that stands still for longer than it may is taken for
// dead, and comes back to find its job done by another.
func TestStalledWorker(t *testing.T) {
	t.Parallel()
	for _, step := range []string{failpoint.BeforeStart, failpoint.Running, failpoint.Uploading, failpoint.ResultWritten} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{noWorker: true})
			stalled := g.startWorker(g.failpoint("pause", step))
			id := g.submit(g.chart())
			g.reached(step)
			stalled.Signal(syscall.SIGSTOP)
			g.goOn(step)
			g.startWorker()
			r := g.wait(id)
			stalled.Signal(syscall.SIGCONT)
			time.Sleep(3 * time.Second) // it goes on with what it was at
			if again := g.proveOnce(id); again.Worker != r.Worker {
				t.Errorf("the result was of %s, and is of %s now", r.Worker, again.Worker)
			}
			stalled.Stop()
		})
	}
}

// TestRedisHangs: Redis stands still at a step of a job, and answers nobody.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	for _, step := range workerSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{noWorker: true})
			g.startWorker(g.failpoint("pause", step))
			id := g.submit(g.chart())
			g.reached(step)
			g.redis.Signal(syscall.SIGSTOP)
			t.Cleanup(func() { g.redis.Signal(syscall.SIGCONT) })
			g.goOn(step)
			time.Sleep(5 * time.Second)
			g.redis.Signal(syscall.SIGCONT)
			if r := g.proveOnce(id); r.Attempt != 1 && step != failpoint.BeforeStart {
				t.Errorf("got attempt %d: a Redis that hung for 5 s cost the job its worker", r.Attempt)
			}
		})
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
	time.Sleep(40 * time.Second)
	g.s3.Signal(syscall.SIGCONT)
	if r := g.wait(id); r.Attempt != 2 {
		t.Errorf("got attempt %d, want the second", r.Attempt)
	}
	g.proveOnce(id)
}

// TestTermWorker: SIGTERM at each step of a job. Nothing is lost, and no attempt spent.
func TestTermWorker(t *testing.T) {
	t.Parallel()
	for _, step := range workerSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{noWorker: true})
			first := g.startWorker(g.failpoint("pause", step), "GLOVEBOX_GRACE_SECONDS=1")
			id := g.submit(g.chart())
			g.reached(step)
			first.Signal(syscall.SIGTERM)
			time.Sleep(1500 * time.Millisecond) // the grace is over
			g.goOn(step)
			select {
			case <-first.Done():
			case <-time.After(25 * time.Second): // its patience with the store is 30 s
				t.Fatal("the worker did not end within 25 s of its grace")
			}
			g.startWorker()
			if r := g.proveOnce(id); r.Attempt != 1 {
				t.Errorf("got attempt %d: the drain spent one", r.Attempt)
			}
		})
	}
}
