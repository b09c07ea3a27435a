package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// runTests runs the program on its tests until there is none left, or the agent no longer does what it
// has to: then the sandbox is lost. In a run, the outcome is that of the test; between two, tests keep
// what they came to. limit is for each run.
func (s *Session) runTests(ctx context.Context, limit, sendTimeout time.Duration) error {
	tests := s.task.Program.Tests
	s.begun = true // Next gives each test once
	keepTimeout := limit + collectTimeout
	for timeout := keepTimeout; ; timeout = clearTimeout {
		if cleared, err := s.awaitCleared(ctx, timeout); err != nil || !cleared {
			return err
		}
		t, ok, err := tests.Next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return s.endTests(ctx)
		}
		if err := s.sendTest(ctx, t, sendTimeout); err != nil {
			return s.whyUnsent(ctx, err)
		}
		if started, err := s.awaitTest(ctx, limit); err != nil || !started {
			return err
		}
		overdue, err := s.runTest(ctx, t, limit)
		if overdue {
			s.Outcome.Lost = true
		}
		if err != nil || overdue {
			return err
		}
		if err := tests.Ended(ctx, s.Outcome.Test()); err != nil {
			return err
		}
	}
}

// runTest passes on what the program prints, and what it is sent where it is interactive. None of that comes behind its end: it would
// be the next test's.
func (s *Session) runTest(ctx context.Context, t sandbox.Test, limit time.Duration) (overdue bool, err error) {
	if t.Input == nil {
		return s.run(ctx, limit)
	}
	stop, stopped := s.feed(ctx, t.Input)
	overdue, err = s.run(ctx, limit)
	stop()
	if err == nil && !overdue {
		<-stopped // the stream gives up an agent that reads nothing
	}
	return overdue, err
}

// clearTimeout is how long an agent may take to make all as it was before a test. Later the sandbox is
// given up, which costs no test its verdict.
const clearTimeout = 30 * time.Second

// awaitCleared waits until the agent is ready for a test, and reports whether it is. The program may have
// been refused before its first test, and the sandbox may be lost after any.
func (s *Session) awaitCleared(ctx context.Context, timeout time.Duration) (cleared bool, err error) {
	e, err := s.events.pop(ctx, timeout)
	tested := !s.testBegan.IsZero()
	if tested {
		s.setTest(job.Succeeded) // each has its own
	}
	switch {
	case tested && errors.Is(err, errOverdue):
		s.Outcome.Lost, s.Outcome.Silent = true, true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("wait until a test can be run: %w", err)
	}
	switch message := e.message.(type) {
	case agentwire.Refused:
		return false, s.refused(ctx, e)
	case agentwire.End:
		s.Outcome.Lost = true
		s.end(e, message)
		return false, nil
	}
	if e.Type != agentwire.TypeCleared {
		return false, s.unexpected(e)
	}
	return true, nil
}

// setTest makes the outcome that of a run of which no more is known than its status.
func (s *Session) setTest(status job.Status) {
	s.Outcome.Status, s.Outcome.ExitCode, s.Outcome.Signal, s.Outcome.Usage = status, 0, "", job.Usage{}
	s.Outcome.Limit, s.Outcome.StdoutTruncated, s.Outcome.StderrTruncated = "", false, false
}

// sendTest tells the agent the next test, and closes the stream on one that takes it too slowly.
func (s *Session) sendTest(ctx context.Context, t sandbox.Test, timeout time.Duration) error {
	s.setTest("")
	s.layingOut = !s.testBegan.IsZero()
	s.lastStderr, s.testBegan = 0, time.Now()
	s.mu.Lock()
	s.check.NextTest()
	s.mu.Unlock()
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	s.out.Hold()
	if err := s.out.WriteJSON(agentwire.TypeTest, agentwire.Test{Args: t.Args}); err != nil {
		return err
	}
	if t.Stdin.Open != nil {
		if err := s.sendContent(ctx, agentwire.TypeStdinData, t.Stdin, func() { overdue.Stop() }, func() { overdue.Reset(timeout) }); err != nil {
			return err
		}
	} else if err := s.out.WriteChunks(agentwire.TypeStdinData, t.Stdin.Content); err != nil {
		return err
	}
	if err := s.out.Write(agentwire.TypeGo, nil); err != nil {
		return err
	}
	return s.out.Release()
}

// awaitTest is awaitStart; only the first test's start is the program's. A later one that doesn't come costs its test nothing: the agent
// lays the program out, and what the test before has left may be in its way.
func (s *Session) awaitTest(ctx context.Context, limit time.Duration) (started bool, err error) {
	startup, began := s.Outcome.Startup, s.Outcome.Timing.Started
	_, err = s.awaitStart(ctx, limit) // nothing is refused any more
	if startup > 0 {
		s.Outcome.Startup, s.Outcome.Timing.Started = startup, began
	}
	if s.layingOut && errors.Is(err, errOverdue) {
		s.Outcome.Lost, s.Outcome.Silent = true, true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.layingOut, s.testBegan = false, time.Now()
	return true, nil
}

// unfit is the end of a program that can't be run on tests: its files don't fit its limits. It counts as
// one that can't be compiled.
func (s *Session) unfit(ctx context.Context, e event) error {
	message := e.message.(agentwire.Refused).Message
	if s.Outcome.Compile == nil {
		s.Outcome.Compile = &job.Compile{}
	}
	s.Outcome.Status = job.CompileFailed
	s.Outcome.Compile.ExitCode = 1
	s.Outcome.Compile.Output += message + "\n"
	s.Outcome.Timing.Exited = e.at.Sub(s.began)
	return s.awaitEnd(ctx)
}

// endTests tells the agent that no test follows. Whether it hears of that changes no verdict; only what
// breaks the protocol does.
func (s *Session) endTests(ctx context.Context) error {
	s.mu.Lock()
	s.check.Done()
	s.mu.Unlock()
	if err := s.out.Write(agentwire.TypeDone, nil); err != nil {
		s.Outcome.Lost = true
		return nil //nolint:nilerr // all tests have their verdicts
	}
	err := s.awaitEnd(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, agentwire.ErrProtocol) {
		s.Outcome.Lost = true
		return nil
	}
	return err
}
