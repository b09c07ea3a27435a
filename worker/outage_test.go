package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	pauses = "worker pauses"
	goesOn = "worker goes on"
)

// chart is a job that stores a file.
var chart = job.Spec{Runtime: "bash", Source: "echo hello | tee file", Limits: job.Limits{WallMS: 60_000}}

// endure submits a job before and one in an outage that goes on for longer than three attempts
// could bear; both have to come to their result at the first attempt.
func (g *glovebox) endure(outage, end func()) {
	g.t.Helper()
	outage()
	met := g.submit(chart)
	g.says(pauses)
	waited := g.submit(chart)
	time.Sleep(2 * time.Second)
	for _, id := range []string{met, waited} {
		if j := g.state(id, job.Queued); j.State != job.Queued || j.Attempts != 0 {
			g.t.Errorf("in the outage a job is %s with %d attempts; want queued with none", j.State, j.Attempts)
		}
	}
	end()
	g.says(goesOn)
	for _, id := range []string{met, waited} {
		if r := g.result(id); r.Status != job.Succeeded || r.Stdout != "hello\n" || len(r.Artifacts) != 1 || r.Attempt != 1 {
			g.t.Errorf("after the outage: got %s at attempt %d, %+v", r.Status, r.Attempt, r.Error)
		}
	}
}

func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.endure(g.s3.Kill, g.s3.Restart)
}

func TestPodmanIsAway(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.endure(g.podman.Kill, g.podman.Restart)
}

// TestPodmanDiesUnderAJob: a sandbox that goes with its service costs its job nothing.
func TestPodmanDiesUnderAJob(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 3000", Limits: job.Limits{WallMS: 3_600_000}})
	g.state(id, job.Running)
	g.podman.Kill() // its sandbox goes with its stream
	g.says(pauses)
	g.podman.Restart()
	g.says(goesOn)
	gbtest.Eventually(t, "it runs again, at its first attempt", func() bool {
		j, err := g.records.Get(t.Context(), id)
		return err == nil && j.State == job.Running && j.Epoch == 2 && j.Attempts == 1
	})
	if _, err := g.records.Cancel(t.Context(), id, nil); err != nil {
		t.Error(err)
	}
}

// TestBusyWorkerTakesNoTask: a worker that goes on after a pause with all its places taken
// leaves what is queued to those that are idle.
func TestBusyWorkerTakesNoTask(t *testing.T) {
	t.Parallel()
	one := func(c *worker.Config) { c.Concurrency = 1 }
	g := start(t, one)
	long := g.submit(job.Spec{Runtime: "bash", Source: "sleep 3000", Limits: job.Limits{WallMS: 3_600_000}})
	g.state(long, job.Running)
	g.s3.Kill()
	g.says(pauses)
	g.s3.Restart()
	g.says(goesOn)
	next := g.submit(job.Spec{Runtime: "bash", Source: "echo hello"})
	time.Sleep(2 * time.Second) // it would have taken it
	idle := g.another(one)
	if r := idle.result(next); r.Stdout != "hello\n" || r.Worker != idle.id {
		t.Errorf("got %s of %s", r.Status, r.Worker)
	}
	if j := g.state(long, job.Running); j.State != job.Running {
		t.Errorf("the long job is %s", j.State)
	}
	if _, err := g.records.Cancel(t.Context(), long, nil); err != nil {
		t.Error(err)
	}
}

// stuck is a Podman that answers, and whose first probe fails and whose next ones hang.
type stuck struct {
	worker.Sandboxes
	probes  *atomic.Int32
	hanging chan struct{} // closed once a probe hangs
	fails   map[string]chan struct{}
}

func (s stuck) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	broken := errors.New("no sandbox can be made")
	if p.JobID == worker.ProbeID {
		switch s.probes.Add(1) {
		case 1:
			return sandbox.Outcome{}, broken
		case 2:
			close(s.hanging)
		}
		<-ctx.Done()
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	select {
	case <-s.fails[string(p.Stdin)]:
		return sandbox.Outcome{}, broken
	case <-ctx.Done():
		return sandbox.Outcome{}, context.Cause(ctx)
	}
}

// TestProbeThatHangs: neither the worker's end waits for it, nor a job that is known to have met
// an outage.
func TestProbeThatHangs(t *testing.T) {
	t.Parallel()
	s := stuck{probes: new(atomic.Int32), hanging: make(chan struct{}), fails: map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}}
	g := start(t, func(c *worker.Config) { s.Sandboxes = c.Sandboxes; c.Sandboxes = s })
	var ids []string
	for _, stdin := range []string{"first", "second"} {
		spec := chart
		spec.Stdin = stdin
		ids = append(ids, g.submit(spec))
	}
	for _, id := range ids {
		g.state(id, job.Running)
	}
	close(s.fails["first"]) // its probe fails, and the worker pauses
	select {
	case <-s.hanging:
	case <-time.After(gbtest.Patience):
		t.Fatal("the worker makes no probe")
	}
	began := time.Now()
	close(s.fails["second"])
	if j := g.state(ids[1], job.Queued); j.State != job.Queued || j.Attempts != 0 {
		t.Errorf("got %s, %d attempts; want it handed back at no cost", j.State, j.Attempts)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("it took %s behind a probe that hangs", took)
	} else {
		t.Logf("handed back, and ended, in %s", took)
	}
}

// silent is a Podman in which nothing is heard of so many compile steps, and whose probes fail while it is sick.
type silent struct {
	worker.Sandboxes
	steps atomic.Int32
	sick  atomic.Bool
}

func (s *silent) Run(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	switch {
	case p.JobID == worker.ProbeID && s.sick.Load():
		return sandbox.Outcome{}, errors.New("no sandbox can be made")
	case len(p.Compile) > 0 && s.steps.Add(-1) >= 0:
		return sandbox.Outcome{
			Status: job.CompileFailed, ExitCode: job.TimedOutExitCode, Silent: true,
			Compile: &job.Compile{ExitCode: job.TimedOutExitCode, Output: "Compilation timed out\n"},
		}, nil
	}
	return s.Sandboxes.Run(ctx, p, sink)
}

// TestSilentCompileStep: that nothing was heard of a compile step says something of the job only where its worker can run sandboxes.
func TestSilentCompileStep(t *testing.T) {
	t.Parallel()
	for name, tests := range map[string][]job.Test{"a job": nil, "a graded one": {{Name: "1", Answer: "hello\n"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &silent{}
			s.steps.Store(2)
			s.sick.Store(true)
			g := start(t, func(c *worker.Config) { s.Sandboxes = c.Sandboxes; c.Sandboxes = s })
			id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello", Tests: tests, Commands: &job.Commands{Compile: "true", Run: "bash main.sh"}})
			g.says("job met an outage")
			if j := g.state(id, job.Queued); j.State != job.Queued || j.Attempts != 0 || j.OutageSince.IsZero() {
				t.Errorf("where no sandbox can be made: got %s, %d attempts, outage since %s; want it handed back at no cost", j.State, j.Attempts, j.OutageSince)
			}
			s.sick.Store(false)
			g.says(goesOn)
			if r := g.result(id); r.Status != job.CompileFailed || r.Compile == nil || r.Compile.ExitCode != job.TimedOutExitCode || r.Attempt != 1 || s.steps.Load() != 0 {
				t.Errorf("where they can: got %s, %+v at attempt %d, %d steps are left; want it compile_failed", r.Status, r.Compile, r.Attempt, s.steps.Load())
			}
		})
	}
}

// claiming says of a job's run what an outage would say.
type claiming struct{ worker.Sandboxes }

func (c claiming) Run(ctx context.Context, p sandbox.Program, s sandbox.Sink) (sandbox.Outcome, error) {
	if p.JobID == worker.ProbeID {
		return c.Sandboxes.Run(ctx, p, s)
	}
	return sandbox.Outcome{}, fmt.Errorf("%w: podman did not start the sandbox in time", sandbox.ErrUnavailable)
}

// costsAnAttempt waits until the job has failed on the worker once, and proves that
// nothing of it looked like an outage.
func (g *glovebox) costsAnAttempt(id string) {
	g.t.Helper()
	g.says("job handed back")
	j, err := g.records.Get(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	spent := j.Attempts
	if j.State != job.Queued { // it is tried again already
		spent--
	}
	if spent < 1 || spent != j.Epoch-1 || !j.OutageSince.IsZero() {
		g.t.Errorf("got %s, %d attempts in epoch %d, outage since %s; want an attempt spent with each epoch and no outage", j.State, j.Attempts, j.Epoch, j.OutageSince)
	}
	if strings.Contains(g.log.String(), pauses) {
		g.t.Error("a job made its worker pause")
	}
	if _, err := g.records.Cancel(g.t.Context(), id, nil); err != nil {
		g.t.Error(err)
	}
}

func TestWhatLooksLikeAnOutageCostsAnAttempt(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Sandboxes = claiming{c.Sandboxes} })
	g.costsAnAttempt(g.submit(chart))
}

// TestCrashedSandboxCostsAnAttempt: to the worker, a job that crashes its gVisor and one
// whose sandbox is killed are the same: the stream ends.
func TestCrashedSandboxCostsAnAttempt(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
	g.state(id, job.Running)
	var container string
	for deadline := time.Now().Add(gbtest.Patience); container == ""; time.Sleep(100 * time.Millisecond) {
		var err error
		if container, err = podmanCLI(t, "ps", "-q", "--filter", "label=run.glovebox.job="+id); err != nil || time.Now().After(deadline) {
			t.Fatalf("its sandbox does not run: %v", err)
		}
	}
	if _, err := podmanCLI(t, "kill", container); err != nil {
		t.Fatal(err)
	}
	g.costsAnAttempt(id)
}

// podmanCLI runs a podman command as the service does.
func podmanCLI(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "podman", args...)
	cmd.Env = append(os.Environ(), gbtest.PodmanEnv()...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// A worker that its operator drains ends what it runs and takes nothing more, until it is resumed.
func TestDrainedByItsOperator(t *testing.T) {
	t.Parallel()
	g := start(t, func(*worker.Config) {})
	admin, err := record.Open(t.Context(), record.Config{URL: g.redis.Admin()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	rdb := admin.Redis().(*redis.Client)
	living, _, err := fleet.List(t.Context(), rdb)
	if err != nil || len(living) != 1 {
		t.Fatalf("got %+v, %v; want the worker", living, err)
	}
	id := living[0].ID
	if err := fleet.Drain(t.Context(), rdb, id, living); err != nil {
		t.Fatal(err)
	}
	g.says(pauses)
	gbtest.Eventually(t, "it says so", func() bool {
		living, _, err = fleet.List(t.Context(), rdb)
		return err == nil && len(living) == 1 && living[0].Drained && strings.Contains(living[0].Paused, "drained by its operator")
	})
	queued := g.submit(chart)
	if j := g.state(queued, job.Queued); j.Attempts != 0 {
		t.Errorf("got %d attempts", j.Attempts)
	}
	idle := g.another(nil)
	for _, id := range []string{queued, g.submit(chart), g.submit(chart), g.submit(chart)} {
		if r := idle.result(id); r.Status != job.Succeeded || r.Worker != idle.id {
			t.Errorf("got %s of %s, want it of %s", r.Status, r.Worker, idle.id)
		}
	}
	if err := idle.stop(); err != nil {
		t.Error(err)
	}
	if err := fleet.Resume(t.Context(), rdb, id); err != nil {
		t.Fatal(err)
	}
	g.says(goesOn)
	if r := g.result(g.submit(chart)); r.Status != job.Succeeded || r.Worker != g.id {
		t.Errorf("resumed: got %s of %s, want it of %s", r.Status, r.Worker, g.id)
	}
}
