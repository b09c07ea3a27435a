package podman

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// grace is for how much longer than its limits a program may take before the
// agent, which enforces them, is not believed in any more.
const grace = 10 * time.Second

// compile passes the compile step's output on, and reports whether the program is not to be.
func (s *session) compile(ctx context.Context, limit time.Duration) (failed bool, err error) {
	deadline := time.Now().Add(limit)
	for {
		e, err := s.events.pop(ctx, time.Until(deadline))
		if err != nil {
			return false, fmt.Errorf("wait for the compile step: %w", err)
		}
		s.taken = true
		switch e.Type {
		case agentwire.TypeCompileOutput:
			s.output.Write(e.Payload)
			s.passed(e.Frame)
		case agentwire.TypeCompiled:
			c := e.say.(agentwire.Compiled)
			s.outcome.Compile = &job.Compile{
				ExitCode: c.ExitCode, WallMS: c.WallMS,
				Output: strings.ToValidUTF8(s.output.String(), "\uFFFD"),
			}
			if c.ExitCode == 0 {
				return false, nil
			}
			s.outcome.Status, s.outcome.ExitCode = job.CompileFailed, c.ExitCode
			s.outcome.Timing.Exited = e.at.Sub(s.began)
			return true, s.end(ctx)
		case agentwire.TypeRefused:
			return true, s.refused(ctx, e)
		default:
			return false, s.unexpected(e)
		}
	}
}

// started waits for the program's start, and reports whether it was refused instead.
func (s *session) started(ctx context.Context, limit time.Duration) (refused bool, err error) {
	e, err := s.events.pop(ctx, limit)
	if err != nil {
		return false, fmt.Errorf("wait for the program's start: %w", err)
	}
	s.taken = true
	switch said := e.say.(type) {
	case agentwire.Started:
		s.outcome.Preloaded = said.Preloaded
		s.outcome.Startup = e.at.Sub(s.began)
		s.outcome.Timing.Started = s.outcome.Startup
		return false, nil
	case agentwire.Refused:
		return true, s.refused(ctx, e)
	}
	return false, s.unexpected(e)
}

// refused is the end of a job that can't have its inputs.
func (s *session) refused(ctx context.Context, e event) error {
	s.outcome.Status, s.outcome.ExitCode = job.Failed, 1
	s.outcome.Startup = e.at.Sub(s.began)
	s.outcome.Timing.Exited = s.outcome.Startup
	if err := s.say(e.say.(agentwire.Refused).Message + "\n"); err != nil {
		return err
	}
	return s.end(ctx)
}

// run passes output on until the program's exit. The time that counts against the
// limit is that spent waiting here, so that a slow sink is not held against the agent.
func (s *session) run(ctx context.Context, limit time.Duration) (overdue bool, err error) {
	var waited time.Duration
	for {
		from := time.Now()
		e, err := s.events.pop(ctx, limit-waited)
		waited += time.Since(from)
		if errors.Is(err, errOverdue) {
			// Whatever the agent is busy with: the program has had its time.
			s.outcome.Usage.WallMS = waited.Milliseconds()
			if s.cgroup != nil && s.cgroup.oomKilled() { // and nobody has said so yet
				s.outOfMemory()
				return true, nil
			}
			return true, s.timedOut()
		}
		if err != nil {
			return false, fmt.Errorf("wait for the program's end: %w", err)
		}
		switch e.Type {
		case agentwire.TypeStdout:
			err = s.sink.Stdout(e.Payload)
		case agentwire.TypeStderr:
			s.stderrEnds = e.Payload[len(e.Payload)-1]
			err = s.sink.Stderr(e.Payload)
		case agentwire.TypeExit:
			return false, s.exit(e)
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return false, err
		}
		s.passed(e.Frame)
	}
}

func (s *session) exit(e event) error {
	exit := e.say.(agentwire.Exit)
	s.outcome.Timing.Exited = e.at.Sub(s.began)
	s.outcome.ExitCode, s.outcome.Signal, s.outcome.Usage = exit.ExitCode, exit.Signal, exit.Usage
	switch exit.Cause {
	case agentwire.Wall, agentwire.CPU:
		return s.timedOut()
	case agentwire.Memory:
		s.outcome.Status = job.OutOfMemory
	case agentwire.Output:
		s.outcome.Status = job.OutputLimitExceeded
	case agentwire.Processes:
		s.outcome.Status = job.Failed
		return s.say(fmt.Sprintf("glovebox: far more processes than limits.processes (%d)\n", s.program.Limits.Processes))
	case agentwire.Killed:
		return errors.New("the agent ended the program although nobody asked it to")
	case agentwire.Exited:
		s.outcome.Status = job.Succeeded
		if exit.ExitCode != 0 || exit.Signal != "" {
			s.outcome.Status = job.Failed
		}
	}
	return nil
}

// outOfMemory is what the program came to when its whole sandbox was killed for it.
func (s *session) outOfMemory() {
	s.outcome.Status, s.outcome.ExitCode, s.outcome.Signal = job.OutOfMemory, 137, "SIGKILL"
}

// timedOut says so where a user looks.
func (s *session) timedOut() error {
	s.outcome.Status, s.outcome.ExitCode, s.outcome.Signal = job.TimedOut, job.TimedOutExitCode, ""
	return s.say("Execution timed out\n")
}

// say adds a line of ours to the program's stderr.
func (s *session) say(line string) error {
	if s.stderrEnds != 0 && s.stderrEnds != '\n' {
		line = "\n" + line
	}
	return s.sink.Stderr([]byte(line))
}
