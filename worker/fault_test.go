package worker_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// afterStart is a hook of the worker's Redis client that calls do when a job has been
// started and the worker has not got the answer yet.
type afterStart struct {
	worker string
	once   *sync.Once
	do     func(id string)
}

func (afterStart) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h afterStart) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		// evalsha, hash, 1, what the tenant's keys begin with, id, epoch, worker, now, version, names
		if args := cmd.Args(); err == nil && len(args) > 9 && args[6] == h.worker {
			if id, ok := args[4].(string); ok && strings.HasSuffix(args[3].(string), "}:") {
				h.once.Do(func() { h.do(id) })
			}
		}
		return err
	}
}

func (afterStart) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestCancelThatComesRightAfterTheStart(t *testing.T) {
	t.Parallel()
	soon(t, func() time.Duration {
		began := make(chan time.Time, 1)
		g := start(t, func(c *worker.Config) {
			s := c.Records
			s.Redis().AddHook(afterStart{c.ID, &sync.Once{}, func(id string) {
				began <- time.Now()
				if _, err := s.Cancel(t.Context(), id, nil); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Millisecond) // its message comes before the worker goes on
			}})
		})
		r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "sleep 30", Limits: job.Limits{WallMS: 60_000}}))
		if r.Status != job.Canceled {
			t.Errorf("got %s", r.Status)
		}
		return time.Since(<-began)
	})
}

func TestCancelWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.s3.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { g.s3.Signal(syscall.SIGCONT) }) // before the worker stops
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello > file"})
	g.state(id, job.Running)
	time.Sleep(2 * time.Second) // it uploads
	began := time.Now()
	if _, err := g.records.Cancel(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	if j := g.state(id); j.State != job.Canceled {
		t.Errorf("got %s", j.State)
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("a cancel took %s while S3 hung", took)
	}
}

func TestDrainWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Grace = time.Second })
	g.s3.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { g.s3.Signal(syscall.SIGCONT) })
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello > file"})
	g.state(id, job.Running)
	time.Sleep(2 * time.Second)
	began := time.Now()
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 25*time.Second { // its patience with the store is 30 s
		t.Errorf("the drain took %s", took)
	}
	if j, err := g.records.Get(t.Context(), id); err != nil || j.State != job.Queued || j.Attempts != 0 {
		t.Errorf("got %s, %d attempts, %v; want it handed back at no cost", j.State, j.Attempts, err)
	}
}

func TestStopsAJobThatWasTakenFromIt(t *testing.T) {
	t.Parallel()
	var id string
	g := start(t, func(c *worker.Config) { c.Concurrency = 1; id = c.ID })
	job1 := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
	g.state(job1, job.Running)
	time.Sleep(500 * time.Millisecond)
	// As the reaper does with a worker that stood still for long.
	if answer, err := g.records.Requeue(t.Context(), job1, 1, id, record.CostAttempt, 0); err != nil || answer != record.RequeueOK {
		t.Fatal(answer, err)
	}
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		j, err := g.records.Get(t.Context(), job1)
		if err != nil {
			t.Fatal(err)
		}
		if j.State == job.Running && j.Epoch == 2 {
			break // the worker had but one slot, so the first run has ended
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is %s in epoch %d: a lost run goes on", j.State, j.Epoch)
		}
	}
	if _, err := g.records.Cancel(t.Context(), job1, nil); err != nil {
		t.Fatal(err)
	}
	if j := g.state(job1); j.State != job.Canceled || j.Attempts != 2 {
		t.Errorf("got %s after %d attempts", j.State, j.Attempts)
	}
}

// panicking panics instead of running a job.
type panicking struct {
	worker.Sandboxes
	runs *atomic.Int64
}

func (p panicking) Run(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	if program.JobID == worker.ProbeID {
		return p.Sandboxes.Run(ctx, program, sink)
	}
	p.runs.Add(1)
	panic("a fault of ours at 10.1.2.3")
}

func TestPanicSpendsAnAttempt(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	g := start(t, func(c *worker.Config) { c.Sandboxes = panicking{c.Sandboxes, &runs} })
	r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "true"}))
	if r.Status != job.InternalError || r.Attempt != 3 || runs.Load() != 3 || strings.Contains(r.Error.Message, "10.1.2.3") {
		t.Errorf("got %s after %d attempts, %d runs: %+v", r.Status, r.Attempt, runs.Load(), r.Error)
	}
}

func TestRedisHangsWhileAJobRuns(t *testing.T) {
	t.Parallel()
	g := servers(t, gbtest.Podman(t))
	g.redis.Hangs = true
	g.work(nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 1; echo survived"})
	g.state(id, job.Running)
	g.redis.Signal(syscall.SIGSTOP)
	time.Sleep(8 * time.Second)
	g.redis.Signal(syscall.SIGCONT)
	if r := g.result(id); r.Stdout != "survived\n" || r.Attempt != 1 {
		t.Errorf("got %+v", r)
	}
}

// counted counts the runs of jobs.
type counted struct {
	worker.Sandboxes
	runs *atomic.Int64
}

func (c counted) Run(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	if program.JobID != worker.ProbeID {
		c.runs.Add(1)
	}
	return c.Sandboxes.Run(ctx, program, sink)
}

// ran waits until a job is run: the worker has heard from Redis that it is its own.
func ran(t *testing.T, runs *atomic.Int64) {
	t.Helper()
	gbtest.Eventually(t, "a job is run", func() bool { return runs.Load() > 0 })
}

// TestResultOutlivesAnOutageOfRedis: a result that is stored counts, however long Redis is
// away at its job's end. The worker's patience is for its own end only.
func TestResultOutlivesAnOutageOfRedis(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	g := start(t, func(c *worker.Config) { c.Patience, c.Sandboxes = 10*time.Millisecond, counted{c.Sandboxes, &runs} })
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 1; echo survived"})
	ran(t, &runs)
	g.redis.Kill()
	g.says("the record could not be written")
	time.Sleep(2 * time.Second) // far above its patience
	g.redis.Restart()
	if r := g.result(id); r.Stdout != "survived\n" || r.Attempt != 1 || runs.Load() != 1 {
		t.Errorf("got %+v after %d runs, want that of the only one", r, runs.Load())
	}
}

// TestDrainDoesNotWaitForRedisForEver: a worker that shuts down while Redis is away ends.
func TestDrainDoesNotWaitForRedisForEver(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	g := start(t, func(c *worker.Config) {
		c.Grace, c.Patience, c.Sandboxes = 10*time.Millisecond, 100*time.Millisecond, counted{c.Sandboxes, &runs}
	})
	g.submit(job.Spec{Runtime: "bash", Source: "sleep 1; echo survived"})
	ran(t, &runs)
	g.redis.Kill()
	g.says("the record could not be written")
	_ = g.stop() // it fails to say that it leaves
	g.says("job could not be ended")
}

func TestDrainWhileJobsArrive(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Concurrency = 4; c.Grace = 100 * time.Millisecond })
	var ids []string
	for range 12 {
		ids = append(ids, g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}}))
	}
	time.Sleep(30 * time.Millisecond)
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		if j, err := g.records.Get(t.Context(), id); err != nil || j.State != job.Queued || j.Attempts != 0 {
			t.Errorf("got %s, %d attempts, %v; want every job queued and no attempt spent", j.State, j.Attempts, err)
		}
	}
}

// hanging doesn't answer for an image once it is told to hang.
type hanging struct {
	worker.Sandboxes
	hangs *atomic.Bool
}

func (h hanging) Image(ctx context.Context, name string) (string, error) {
	if !h.hangs.Load() {
		return h.Sandboxes.Image(ctx, name)
	}
	<-ctx.Done()
	return "", ctx.Err()
}

func TestPodmanThatHangsHoldsNoJobForEver(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	g := start(t, func(c *worker.Config) { c.Sandboxes, c.ImageTimeout = hanging{c.Sandboxes, &hangs}, 10*time.Second })
	g.result(g.submit(job.Spec{Runtime: "bash", Source: "true"})) // it has published its runtimes
	hangs.Store(true)
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello"})
	g.state(id, job.Running)
	gbtest.Eventually(t, "the job is handed back", func() bool {
		j, err := g.records.Get(t.Context(), id)
		return err == nil && j.Epoch > 1
	})
	hangs.Store(false)
	if r := g.result(id); r.Stdout != "hello\n" || r.Attempt < 2 { // 3 where it was tried once more by then
		t.Errorf("got %+v", r)
	}
}
