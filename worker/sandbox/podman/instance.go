package podman

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// plan is what a sandbox is made of, and what can't be changed once it is made: the
// sizes of its file systems. All other limits are given when a program gets it.
type plan struct {
	image    string
	limits   job.Limits
	shmMB    int64  // size of /dev/shm, which memory_mb bounds whatever it is
	jobID    string // for the container's labels
	epoch    int
	backstop time.Duration
	// preload is what may be started in it as it waits; nil: nothing.
	preload *Preload
	// reusable: its container can have one sandbox after another.
	reusable bool
}

// instance is a sandbox that was started, and whose agent waits for a program.
type instance struct {
	container
	made    time.Time
	session *session
	// process is the sandbox's, where the watch over its memory was made ready; else nil.
	process *process
	// preload is the pool's; nobody changes it any more once the sandbox is claimed.
	preload preloadState
	// remove destroys the container, in the background and once.
	remove  func()
	removed atomic.Bool // it was called
	reader  sync.WaitGroup
}

// start makes a sandbox and starts it. Its agent has not said yet that it is ready. The
// caller closes it.
func (p *Sandboxes) start(ctx context.Context, began time.Time, plan plan) (_ *instance, err error) {
	// Podman answers in time, or the program is better tried elsewhere.
	startCtx, started := context.WithTimeout(ctx, p.config.StartTimeout)
	defer started()
	defer func() {
		if err != nil && startCtx.Err() != nil && ctx.Err() == nil {
			err = errors.Join(errSlowStart, err)
		}
	}()
	image, err := p.image(startCtx, plan.image)
	if err != nil {
		return nil, err
	}
	if c, ok := p.takeIdle(plan, image); ok {
		w, err := p.launch(ctx, startCtx, began, c)
		if err == nil || startCtx.Err() != nil {
			return w, err
		}
		p.config.Log.Warn("a container got no other sandbox, and is removed", "container", c.name, "error", err)
	}
	c, err := p.create(startCtx, plan, image)
	if err != nil {
		return nil, err
	}
	return p.launch(ctx, startCtx, began, c)
}

// launch starts a sandbox in the container, within startCtx. The container goes if it
// can't, and when ctx ends meanwhile.
func (p *Sandboxes) launch(ctx, startCtx context.Context, began time.Time, c container) (_ *instance, err error) {
	var unsettled atomic.Bool
	w := &instance{container: c, made: time.Now(), session: newSession(began)}
	w.remove = sync.OnceFunc(func() { //nolint:contextcheck // a container goes whatever became of its run
		w.removed.Store(true)
		p.remove(c.name, removal{unsettled: unsettled.Load()})
	})
	defer context.AfterFunc(ctx, w.remove)()
	s := w.session
	s.outcome.OCIRuntime, s.outcome.LimitsEnforced, s.outcome.ImageDigest = p.ociRuntime, p.limitsEnforced(), c.image.digest
	s.outcome.Timing.Created = time.Since(began)
	if s.stream, err = p.pipes.reserve(c.id); err != nil {
		w.remove()
		return nil, err
	}
	s.out = agentwire.NewWriter(s.stream)
	w.reader.Go(s.read)
	w.reader.Go(s.stream.listen)
	err = p.startContainer(startCtx, c)
	if err != nil {
		unsettled.Store(true)
		s.stream.withdraw() // what settles the container is to get none
		w.close()
		if said := s.stream.complaint(); said != "" {
			err = fmt.Errorf("%w: %s", err, agentwire.Printable(said, maxComplaint))
		}
		return nil, fmt.Errorf("start container: %w", err)
	}
	s.outcome.Timing.Running = time.Since(began)
	if p.cgroupParent != "" {
		if s.cgroup, err = openCgroup(p.cgroupParent, c.id); err != nil { // it ended at once, or was made elsewhere
			w.close()
			return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
	}
	return w, nil
}

// startContainer has Podman start the container, and sees to it that it has made a sandbox. A
// container that runs, Podman calls started: conmon may not have noted yet that the sandbox that
// it had has ended. One that was made to stay is not waited for.
func (p *Sandboxes) startContainer(ctx context.Context, c container) error {
	for range 4 {
		if err := containers.Start(p.with(ctx), c.name, nil); err != nil {
			return err
		}
		if p.pipes.claimed(c.id) {
			return nil
		}
		if !sleep(ctx, exitTime) {
			return context.Cause(ctx)
		}
	}
	return errors.New("podman made no sandbox: the container's last one stays, or the OCI runtime is not this version's")
}

// errSlowStart is why a start is given up.
var errSlowStart = fmt.Errorf("%w: podman did not start the sandbox in time", sandbox.ErrUnavailable)

// close destroys the sandbox; nobody may use it any more.
func (w *instance) close() {
	w.remove()
	w.release()
}

// release lets go of what the worker holds of the sandbox.
func (w *instance) release() {
	w.session.stream.Close() // wakes the reader, and anything that is being sent
	w.reader.Wait()
	if w.session.cgroup != nil {
		w.session.cgroup.close()
	}
	if w.process != nil {
		w.process.close()
	}
}

// fits reports whether a program with these limits can have a sandbox of the plan.
func (p plan) fits(l job.Limits) bool { return p.limits.DiskMB == l.DiskMB && p.shmMB >= l.MemoryMB }

// outlives reports whether Podman leaves a sandbox that was started then alone until ctx ends.
func (p plan) outlives(ctx context.Context, started time.Time) bool {
	end, bounded := ctx.Deadline()
	return !bounded || end.Before(started.Add(p.backstop-backstopSlack))
}

// planOf is the plan of a fresh sandbox for the program: the pool's where that suits, as the
// container can have another one then.
func (p *Sandboxes) planOf(ctx context.Context, program sandbox.Program) plan {
	if plan, ok := p.pool.planFor(program); ok && plan.outlives(ctx, time.Now()) {
		return plan
	}
	return plan{
		image: program.Image, limits: program.Limits, shmMB: program.Limits.MemoryMB, jobID: program.JobID, epoch: program.Epoch, backstop: p.backstop(ctx),
	}
}

// use runs the program in the sandbox, and destroys it. Once, and at once when ctx ends:
// a sink that blocks must not keep a sandbox alive. Once the agent has said its last word
// nothing of the program runs: its result goes before the removal.
func (p *Sandboxes) use(ctx context.Context, w *instance, program sandbox.Program, sink sandbox.Sink) (_ sandbox.Outcome, err error) {
	defer func() {
		if err != nil || ctx.Err() != nil || w.session.outcome.Timing.Ended == 0 {
			w.close()
			return
		}
		p.background.Go(func() {
			sleep(p.removals, resultTime)
			p.recycle(w)
		})
	}()
	defer context.AfterFunc(ctx, func() { w.remove(); w.session.stream.Close() })()
	s := w.session
	s.give(program, sink)
	if w.preload != preloadNone { // it may hold that, whatever becomes of it
		s.preloadMB = w.plan.preloadMB()
	}
	s.preload(w.preload != preloadFailed && w.plan.preloads(program))
	over := p.watchMemory(ctx, w, program.Limits)
	defer over.stop()
	err = s.serve(ctx, p.config.StartTimeout)
	if err == nil {
		return s.outcome, nil
	}
	if said := s.stream.complaint(); said != "" {
		p.config.Log.Warn("agent complained", "job_id", program.JobID, "epoch", program.Epoch, "stderr", agentwire.Printable(said, maxComplaint))
	}
	if s.outcome.Warm && !s.taken {
		return sandbox.Outcome{}, fmt.Errorf("run program: %w", err) // whatever ended the sandbox, it was not the program
	}
	held := over.killedBytes.Load()
	if held == 0 && errors.Is(err, errNoEnd) && p.oomKilled(ctx, w.name, s.cgroup) {
		held = s.bounds().memory
	}
	if held > 0 && errors.Is(err, errNoEnd) {
		// The agent went with its sandbox: what it would have told is not known.
		s.outOfMemory()
		s.outcome.Usage.MemoryPeakBytes = held
		if s.outcome.Startup > 0 {
			s.outcome.Usage.WallMS = (time.Since(s.began) - s.outcome.Startup).Milliseconds()
		}
		return s.outcome, nil
	}
	return sandbox.Outcome{}, fmt.Errorf("run program: %w", err)
}
