package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
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
	// preload is what may be started in the sandbox while it is idle; nil: nothing.
	preload *Preload
	// reusable: its container can have one sandbox after another.
	reusable bool
}

// instance is a sandbox that was started, for one program.
type instance struct {
	container
	made    time.Time
	session *session.Session
	cgroup  *hostCgroup // nil where the host delegates no cgroups
	// process is the sandbox's, where its memory is to be watched by that; else nil.
	process *process
	// preload is the pool's; nobody changes it any more once the sandbox is claimed.
	preload preloadState
	// snapshot is what the sandbox went on from; nil: it started with its agent.
	snapshot *snapshot
	// control and madeOf are those of a sandbox that becomes a snapshot or can be paused: its control
	// socket, and the files that it is made of. special has them first.
	control *os.File
	madeOf  string
	special *specialStart
	// unpausable says why it can't be paused, once that is known.
	unpausable error
	// remove destroys the container, in the background and once.
	remove  func()
	removed atomic.Bool // remove was called
}

// start makes a sandbox and starts it, from a snapshot unless that is nil. Its agent may not have said
// yet that it is ready. The caller closes it.
func (p *Sandboxes) start(ctx context.Context, began time.Time, plan plan, from *snapshot) (*instance, error) {
	if from == nil {
		return p.startAs(ctx, began, plan, startMode{control: p.pausable()})
	}
	w, why := p.goOnFrom(ctx, began, plan, from)
	if why == nil || ctx.Err() != nil || errors.Is(why, errSlowStart) {
		return w, why
	}
	w, err := p.startAs(ctx, began, plan, startMode{control: p.pausable()})
	if err == nil { // so it is not Podman that is to blame
		p.pool.dropSnapshot(plan.image, from, why)
	}
	return w, err
}

// goOnFrom makes a sandbox that goes on from a snapshot, and waits until its agent is ready.
func (p *Sandboxes) goOnFrom(ctx context.Context, began time.Time, plan plan, from *snapshot) (*instance, error) {
	w, err := p.startAs(ctx, began, plan, startMode{from: from, control: p.pausable()})
	if err != nil {
		return nil, err
	}
	if err := w.session.AwaitReady(ctx, p.config.StartTimeout); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// startAs makes a sandbox and starts it in the given way.
func (p *Sandboxes) startAs(ctx context.Context, began time.Time, plan plan, mode startMode) (_ *instance, err error) {
	// Podman answers in time, or the program is better tried elsewhere.
	timeout := p.config.StartTimeout
	if mode.resumes != nil {
		timeout = max(timeout, pauseTimeout) // its memory is read before it is started
	}
	startCtx, started := context.WithTimeout(ctx, timeout)
	defer started()
	defer func() {
		if err != nil && startCtx.Err() != nil && ctx.Err() == nil {
			err = errors.Join(errSlowStart, err)
		}
	}()
	var image image
	if mode.resumes != nil {
		image = mode.resumes.image // whatever its name means by now
	} else if image, err = p.service.image(startCtx, plan.image); err != nil {
		return nil, err
	}
	if mode.from != nil && mode.from.imageID != image.id {
		return nil, errOtherFiles
	}
	if c, ok := p.takeIdle(plan, image); ok {
		w, err := p.launch(ctx, startCtx, began, c, mode)
		if err == nil || startCtx.Err() != nil || mode.resumes != nil { // the state may have been read: whoever resumes tries again
			return w, err
		}
		p.config.Log.Warn("no sandbox could be started in a used container, which is removed", "container", c.name, "error", err)
	}
	c, err := p.create(startCtx, plan, image)
	if err != nil {
		return nil, err
	}
	return p.launch(ctx, startCtx, began, c, mode)
}

// launch starts a sandbox in the container, within startCtx. If it can't, or ctx ends
// meanwhile, the container is removed.
func (p *Sandboxes) launch(ctx, startCtx context.Context, began time.Time, c container, mode startMode) (_ *instance, err error) {
	var unsettled atomic.Bool
	w := &instance{container: c, made: time.Now()}
	w.remove = sync.OnceFunc(func() { //nolint:contextcheck // a container goes whatever became of its run
		w.removed.Store(true)
		p.remove(c.name, removal{unsettled: unsettled.Load()})
	})
	defer context.AfterFunc(ctx, w.remove)()
	pipes, unreserve, err := p.pipes.reserve(c.id)
	if err != nil {
		w.remove()
		return nil, err
	}
	w.session = session.New(began, pipes)
	special := mode.special()
	if special != nil {
		defer p.pipes.expect(c.id, special)()
	}
	outcome := &w.session.Outcome
	outcome.OCIRuntime, outcome.LimitsEnforced, outcome.ImageDigest = p.service.ociRuntime, p.limitsEnforced(), c.image.digest
	outcome.Timing.Created = time.Since(began)
	if err := p.startContainer(startCtx, c); err != nil {
		unsettled.Store(true)
		unreserve() // the sandbox that settles the container is to get no pipes
		w.close()
		if said := w.session.Stderr(); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		if special != nil {
			err = errors.Join(special.abandon(), err)
		}
		return nil, fmt.Errorf("start container: %w", err)
	}
	outcome.Timing.Running = time.Since(began)
	if err := p.confirm(w, special); err != nil {
		w.close()
		return nil, err
	}
	if p.cgroupParent != "" {
		if w.cgroup, err = openCgroup(p.cgroupParent, c.id); err != nil { // it ended at once, or was made elsewhere
			w.close()
			return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
		w.session.Cgroup = w.cgroup
	}
	return w, nil
}

// confirm makes sure that the sandbox was started as special says, and tells the agent of one that goes
// on from a snapshot.
func (p *Sandboxes) confirm(w *instance, special *specialStart) error {
	if w.special = special; special == nil || !special.asked() {
		return nil
	}
	if err := w.heed(); err != nil || special.becomes {
		return err
	}
	if special.resumes != nil {
		return nil // whoever resumes it asks its agent
	}
	w.snapshot, w.preload = special.from, preloadReady
	w.session.Outcome.Snapshot = special.from.digest
	return w.session.Resume(p.config.StartTimeout)
}

// heed takes what the OCI runtime was told of the sandbox's start, once.
func (w *instance) heed() error {
	if w.special == nil || w.madeOf != "" {
		return nil
	}
	said, err := w.special.result()
	w.control, w.madeOf = said.control, said.madeOf
	return err
}

// startContainer has Podman start the container, and makes sure that this made a sandbox. Podman
// calls a container started that runs, though its last sandbox may have ended and conmon not have
// noted that yet. A sandbox that was made to stay is not waited for.
func (p *Sandboxes) startContainer(ctx context.Context, c container) error {
	for range 4 {
		if err := containers.Start(p.service.with(ctx), c.name, nil); err != nil {
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

// release frees what the worker holds open of the sandbox.
func (w *instance) release() {
	w.session.Close()
	if w.cgroup != nil {
		w.cgroup.close()
	}
	if w.process != nil {
		w.process.close()
	}
	if w.control != nil {
		w.control.Close()
	} else if w.special != nil {
		_ = w.special.abandon() // of no interest any more
	}
}

// fits reports whether a program with these limits can have a sandbox of the plan.
func (p plan) fits(l job.Limits) bool { return p.limits.DiskMB == l.DiskMB && p.shmMB >= l.MemoryMB }

// outlives reports whether Podman leaves a sandbox that was started then alone until ctx ends.
func (p plan) outlives(ctx context.Context, started time.Time) bool {
	end, bounded := ctx.Deadline()
	return !bounded || end.Before(started.Add(p.backstop-backstopSlack))
}

// planOf is the plan of a fresh sandbox for the program: the pool's where that fits, as the
// container can be used again then.
func (p *Sandboxes) planOf(ctx context.Context, program sandbox.Program) plan {
	if plan, ok := p.pool.planFor(program); ok && plan.outlives(ctx, time.Now()) {
		return plan
	}
	return plan{
		image: program.Image, limits: program.Limits, shmMB: program.Limits.MemoryMB, jobID: program.JobID, epoch: program.Epoch, backstop: p.backstop(ctx),
	}
}

// use runs the program in the sandbox, and in others where it is a session that is paused.
func (p *Sandboxes) use(ctx context.Context, w *instance, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	task := session.Task{Program: program, Sink: sink, Preloaded: w.preload != preloadFailed && w.plan.preloads(program)}
	task.Forks = w.plan.forks(program)
	if w.preload != preloadNone || task.Forks != nil { // the sandbox may hold that, whatever becomes of the preload
		task.PreloadMB = w.plan.preloadMB()
	}
	if task.Preloaded && program.Turns != nil {
		task.Become = w.plan.preload.Command
	}
	return p.goOn(ctx, w, task, func(task session.Task) error { return w.session.Serve(ctx, task, p.config.StartTimeout) })
}

// goOn has serve run the program in the sandbox, and goes on in others where it is a session that is paused.
func (p *Sandboxes) goOn(ctx context.Context, w *instance, task session.Task, serve func(session.Task) error) (sandbox.Outcome, error) {
	for {
		outcome, paused, err := p.stay(ctx, w, task, serve)
		if paused == nil {
			return outcome, err
		}
		next, first, err := p.awaitTurn(ctx, task, paused)
		if next == nil {
			return outcome, err
		}
		w = next
		serve = func(task session.Task) error { return w.session.GoOnTurns(ctx, task, first, p.config.StartTimeout) }
	}
}

// stay runs the program in the sandbox, and destroys that: at once when ctx ends, as a sink that
// blocks must not keep a sandbox alive. Once the agent has said its last word nothing of the
// program runs, and the result is returned before the sandbox is removed. A session may be paused instead.
func (p *Sandboxes) stay(ctx context.Context, w *instance, task session.Task, serve func(session.Task) error) (_ sandbox.Outcome, paused *paused, err error) {
	s, program := w.session, task.Program
	defer func() {
		if err != nil || ctx.Err() != nil || s.Outcome.Timing.Ended == 0 {
			w.close()
			return
		}
		p.background.Go(func() {
			sleep(p.removals, resultTime)
			p.recycle(w)
		})
	}()
	defer context.AfterFunc(ctx, func() { w.remove(); s.Abort() })()
	memory := p.watchMemory(ctx, w, program.Limits, task.PreloadMB)
	defer memory.stop()
	if program.Turns != nil {
		task.Program.Turns = watchedTurns{program.Turns, memory}
	}
	var pause *session.PauseError
	for err = serve(task); errors.As(err, &pause); err = s.GoOnTurns(ctx, task, nil, p.config.StartTimeout) {
		if pause.Fork {
			if err = p.fork(ctx, w, task, pause.Interrupt); err != nil {
				break
			}
			continue
		}
		if paused = p.tryPause(ctx, w, program.Turns, boundsOf(program.Limits).with(task.PreloadMB).memory, pause.Interrupt); paused != nil {
			return s.Outcome, paused, nil
		}
	}
	if err == nil && !s.Outcome.Lost {
		return s.Outcome, nil, nil
	}
	if said := s.Stderr(); said != "" {
		p.config.Log.Warn("agent wrote to stderr", "job_id", program.JobID, "epoch", program.Epoch, "stderr", said)
	}
	if err == nil {
		return s.Outcome, nil, nil
	}
	if s.Outcome.Warm && !s.Begun() {
		return sandbox.Outcome{}, nil, fmt.Errorf("run program: %w", err) // whatever ended the sandbox, it was not the program
	}
	held := memory.killedBytes.Load()
	if held == 0 && errors.Is(err, session.ErrNoEnd) && p.service.oomKilled(ctx, w.name, w.cgroup) {
		held = boundsOf(program.Limits).with(task.PreloadMB).memory
	}
	if held > 0 && errors.Is(err, session.ErrNoEnd) {
		return s.OutOfMemory(held), nil, nil
	}
	return sandbox.Outcome{Usage: s.Used()}, nil, fmt.Errorf("run program: %w", err)
}
