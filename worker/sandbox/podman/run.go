package podman

import (
	"context"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Run runs the program in a sandbox of its own and gives what it makes to the sink.
//
// What the program does wrong is in the outcome; an error means that Glovebox has failed,
// or that the sink has, and the program may be run again. When ctx ends, the sandbox is
// destroyed at once, whatever a call of the sink is waiting for, and the error is
// context.Cause(ctx). No container is left in either case, at the latest when Close
// returns.
func (p *Sandboxes) Run(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	began := time.Now()
	outcome, err := p.run(ctx, began, program, sink)
	if err != nil && ctx.Err() != nil {
		return sandbox.Outcome{}, context.Cause(ctx)
	}
	return outcome, err
}

// programEnded notes the end of a program.
func (p *Sandboxes) programEnded() {
	now := time.Now() // with the monotonic reading: a clock that is set back changes nothing
	p.lastEnd.Store(&now)
	p.programs.Add(-1)
	if p.pool != nil {
		p.pool.wake()
	}
}

func (p *Sandboxes) run(ctx context.Context, began time.Time, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	p.programs.Add(1)
	defer p.programEnded()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if problem := program.Unrunnable(); problem != "" {
		return p.refusedOutcome(ctx, began, program.Image, problem, sink)
	}
	if w := p.claim(ctx, program); w != nil {
		w.session.claimed(began)
		p.config.Log.Debug("warm sandbox claimed", "container", w.name, "job_id", program.JobID, "epoch", program.Epoch)
		outcome, err := p.use(ctx, w, program, sink)
		if err == nil || w.session.taken || ctx.Err() != nil {
			return outcome, err
		}
		p.config.Log.Warn("a warm sandbox failed before its program was seen to begin, which gets a fresh one", "job_id", program.JobID, "epoch", program.Epoch, "error", err)
	}
	w, err := p.start(ctx, began, p.planOf(ctx, program))
	if err != nil {
		return sandbox.Outcome{}, err
	}
	return p.use(ctx, w, program, sink)
}

// oomPatience is how long Podman may take to notice that a sandbox has ended.
const oomPatience = 5 * time.Second

// oomKilled asks whether the host's kernel ended the sandbox for its memory, which takes
// the agent and its last word with it. The cgroup knows until it is removed, and Podman
// from then on.
func (p *Sandboxes) oomKilled(ctx context.Context, name string, l *hostCgroup) bool {
	if l == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, oomPatience)
	defer cancel()
	for {
		if l.oomKilled() {
			return true
		}
		c, err := containers.Inspect(p.with(ctx), name, nil)
		if err != nil || c.State == nil {
			return false
		}
		if c.State.OOMKilled || !c.State.Running || !sleep(ctx, memoryPoll) {
			return c.State.OOMKilled
		}
	}
}

// limitsEnforced is who sees to it that limits hold.
func (p *Sandboxes) limitsEnforced() string {
	if p.cgroupParent != "" {
		return "hard"
	}
	return "soft"
}

// refusedOutcome is the outcome that such a program would have had.
func (p *Sandboxes) refusedOutcome(ctx context.Context, began time.Time, imageName, problem string, sink sandbox.Sink) (sandbox.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.StartTimeout)
	defer cancel()
	image, err := p.image(ctx, imageName)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	if err := sink.Stderr([]byte(problem + "\n")); err != nil {
		return sandbox.Outcome{}, err
	}
	return sandbox.Outcome{
		Status: job.Failed, ExitCode: 126, LimitsEnforced: p.limitsEnforced(), OCIRuntime: p.ociRuntime,
		ImageDigest: image.digest, Startup: time.Since(began),
	}, nil
}
