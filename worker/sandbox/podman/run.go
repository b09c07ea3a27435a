package podman

import (
	"context"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Run runs the program in a sandbox of its own and gives what it makes to the sink.
//
// What the program does wrong is in the outcome; an error means that Glovebox has failed,
// or that the sink has, and the program may be run again. When ctx ends, the sandbox is
// destroyed at once, whatever a call of the sink is waiting for, the error is
// context.Cause(ctx), and the outcome's Usage says for how long the program ran. No container is left in either case, at the latest when Close
// returns.
func (p *Sandboxes) Run(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	began := time.Now()
	outcome, err := p.run(ctx, began, program, sink)
	if err != nil && ctx.Err() != nil {
		return sandbox.Outcome{Usage: outcome.Usage}, context.Cause(ctx)
	}
	return outcome, err
}

// programEnded notes that a program has ended.
func (p *Sandboxes) programEnded() {
	now := time.Now() // with the monotonic reading: a clock that is set back changes nothing
	p.lastEnd.Store(&now)
	p.programs.Add(-1)
	if p.pool != nil {
		p.pool.wake()
	}
}

func (p *Sandboxes) run(ctx context.Context, began time.Time, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	if program.Turns == nil { // a session is idle most of the time
		p.programs.Add(1)
		defer p.programEnded()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if problem := program.Unrunnable(); problem != "" {
		return p.refusedOutcome(ctx, began, program.Image, problem, sink)
	}
	if program.From != nil {
		return p.runFork(ctx, program, sink)
	}
	if w := p.claim(ctx, program); w != nil {
		w.session.Claim(began)
		p.config.Log.Debug("warm sandbox claimed", "container", w.name, "job_id", program.JobID, "epoch", program.Epoch)
		outcome, err := p.use(ctx, w, program, sink)
		if err == nil || w.session.Begun() || ctx.Err() != nil {
			return outcome, err
		}
		p.config.Log.Warn("a warm sandbox failed before its program began; the program gets a fresh one", "job_id", program.JobID, "epoch", program.Epoch, "error", err)
	}
	plan := p.planOf(ctx, program)
	var from *snapshot
	if plan.pays(program) {
		from = p.pool.snapshotOf(plan)
	}
	w, err := p.start(ctx, began, plan, from)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	return p.use(ctx, w, program, sink)
}

// limitsEnforced returns "hard" if cgroups bound the sandboxes, else "soft".
func (p *Sandboxes) limitsEnforced() string {
	if p.cgroupParent != "" {
		return "hard"
	}
	return "soft"
}

// refusedOutcome returns the outcome of a program that no sandbox could run.
func (p *Sandboxes) refusedOutcome(ctx context.Context, began time.Time, imageName, problem string, sink sandbox.Sink) (sandbox.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.StartTimeout)
	defer cancel()
	image, err := p.service.image(ctx, imageName)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	if err := sink.Stderr([]byte(problem + "\n")); err != nil {
		return sandbox.Outcome{}, err
	}
	return sandbox.Outcome{
		Status: job.Failed, ExitCode: 126, LimitsEnforced: p.limitsEnforced(), OCIRuntime: p.service.ociRuntime,
		ImageDigest: image.digest, Startup: time.Since(began),
	}, nil
}
