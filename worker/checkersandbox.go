package worker

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// checkerSandbox is a sandbox in which checks are made, one after another.
type checkerSandbox struct {
	cancel   context.CancelFunc
	rule     func(o checkOutcome, more int) grading.Ruling
	checks   chan check
	outcomes chan checkOutcome
	over     chan struct{} // closed once there will be no more; then end and err are set
	end      sandbox.Outcome
	err      error

	asked bool // for a check: the program is compiled; for the goroutine that serves the sandbox, as are those below
	// Of the current check.
	dialog *dialog // nil: the checker is not interactive
	report bytes.Buffer
	stderr []byte
}

// check is a run of the checker, and the dialog that it is a side of; nil: it reads an output.
type check struct {
	sandbox.Test
	dialog *dialog
}

// checkOutcome is what became of the program in one check. end is set where the sandbox has ended instead.
type checkOutcome struct {
	sandbox.TestOutcome
	report []byte
	stderr string
	end    *sandbox.Outcome
}

// start starts a sandbox, and the program's compile step in it. It ends with ctx.
func (c *checkerProgram) start(ctx context.Context) *checkerSandbox {
	ctx, cancel := context.WithCancel(ctx)
	s := &checkerSandbox{
		cancel: cancel, checks: make(chan check), outcomes: make(chan checkOutcome, 1), over: make(chan struct{}),
		rule: c.rule,
	}
	go func() {
		defer close(s.over)
		defer cancel()
		s.end, s.err = c.run(ctx, s)
		if s.dialog != nil {
			s.dialog.interactorEnded(false)
		}
	}()
	return s
}

// await waits for what becomes of the check that was given. It fails once ctx ends: the submission's sandbox is gone, or the job
// is over.
func (s *checkerSandbox) await(ctx context.Context) (checkOutcome, error) {
	select {
	case o := <-s.outcomes:
		return o, nil
	case <-ctx.Done():
		return checkOutcome{}, context.Cause(ctx)
	case <-s.over:
	}
	select {
	case o := <-s.outcomes: // it was the last
		return o, nil
	default:
		return checkOutcome{end: &s.end}, s.err
	}
}

// Next is [sandbox.Tests.Next]: it waits until an output is to be judged.
func (s *checkerSandbox) Next(ctx context.Context) (sandbox.Test, bool, error) {
	s.asked = true
	select {
	case c := <-s.checks:
		s.dialog = c.dialog
		s.report.Reset()
		s.stderr = s.stderr[:0]
		return c.Test, true, nil
	case <-ctx.Done():
		return sandbox.Test{}, false, context.Cause(ctx)
	}
}

// Ended is [sandbox.Tests.Ended].
func (s *checkerSandbox) Ended(_ context.Context, o sandbox.TestOutcome) error {
	outcome := checkOutcome{TestOutcome: o, report: bytes.Clone(s.report.Bytes()), stderr: string(s.stderr)}
	if s.dialog != nil {
		outcome.stderr = grading.DialogStderr(outcome.report)
		s.dialog.interactorEnded(s.rule(outcome, s.dialog.more).Verdict == job.Accepted)
		s.dialog = nil
	}
	s.outcomes <- outcome
	return nil
}

// Stdout is the script's report, or what an interactor says to the program. The sandbox has bounded both.
func (s *checkerSandbox) Stdout(p []byte) error {
	if s.dialog != nil {
		s.dialog.interactorSays(p)
		return nil
	}
	s.report.Write(p)
	return nil
}

// Stderr keeps the beginning; of an interactor it is the script's report, which the sandbox has bounded.
func (s *checkerSandbox) Stderr(p []byte) error {
	if s.dialog != nil {
		s.report.Write(p)
		return nil
	}
	s.stderr = append(s.stderr, p[:min(len(p), job.ShownOutput-len(s.stderr))]...)
	return nil
}

// Artifact is never called: programs with tests have none.
func (s *checkerSandbox) Artifact(context.Context, string, int64, io.Reader) error {
	return errors.New("a checker has no artifacts")
}
