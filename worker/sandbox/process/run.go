package process

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
)

// Run runs the program in a sandbox of its own and gives what it makes to the sink; nothing is left of either when it returns.
//
// What the program does wrong is in the outcome; an error means that Glovebox has failed, or that the sink has, and the program may be
// run again. When ctx ends, the sandbox is destroyed at once, and the error is context.Cause(ctx).
func (s *Sandboxes) Run(ctx context.Context, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	began := time.Now()
	if err := refuse(program); err != nil {
		return sandbox.Outcome{}, err
	}
	if problem := program.Unrunnable(); problem != "" {
		if err := sink.Stderr([]byte(problem + "\n")); err != nil {
			return sandbox.Outcome{}, err
		}
		return sandbox.Outcome{Status: job.Failed, ExitCode: 126, LimitsEnforced: "soft", Isolation: job.Process, Kernel: s.kernel, Startup: time.Since(began)}, nil
	}
	outcome, err := s.run(ctx, began, program, sink)
	if err != nil && ctx.Err() != nil {
		return sandbox.Outcome{Usage: outcome.Usage}, context.Cause(ctx)
	}
	return outcome, err
}

// refuse fails for a program that must not run here, or can't.
func refuse(p sandbox.Program) error {
	switch {
	case !job.Process.Suffices(p.Isolation):
		return fmt.Errorf("%w: the program is to be isolated by %s, and this worker isolates by %s", sandbox.ErrUnavailable, p.Isolation.Or(), job.Process)
	case p.Image != "":
		return fmt.Errorf("%w: the isolation %s has no images", sandbox.ErrImageRefused, job.Process)
	case p.Turns != nil:
		return fmt.Errorf("%w: the isolation %s has no sessions", sandbox.ErrUnavailable, job.Process)
	}
	return nil
}

func (s *Sandboxes) run(ctx context.Context, began time.Time, program sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	i, err := s.start(began, program.Limits)
	if err != nil {
		return sandbox.Outcome{}, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	defer i.close()
	// A sink that blocks must not keep a sandbox alive.
	defer context.AfterFunc(ctx, func() { i.kill(); i.session.Abort() })()
	err = i.session.Serve(ctx, session.Task{Program: program, Sink: sink}, s.config.StartTimeout)
	if said := i.session.Stderr(); said != "" && ctx.Err() == nil {
		s.config.Log.Warn("agent wrote to stderr", "job_id", program.JobID, "epoch", program.Epoch, "stderr", said)
	}
	if err != nil {
		return sandbox.Outcome{Usage: i.session.Used()}, fmt.Errorf("run program: %w", err)
	}
	return i.session.Outcome, nil
}
