package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// grace is how much longer than its limits a program may take before the worker stops relying
// on the agent, which enforces them.
const grace = 10 * time.Second

// compile keeps the compile step's output, and reports whether the step failed: then there is
// no program.
func (s *Session) compile(ctx context.Context, limit time.Duration) (failed bool, err error) {
	deadline := time.Now().Add(limit)
	for {
		e, err := s.events.pop(ctx, time.Until(deadline))
		if errors.Is(err, errOverdue) && (s.begun || !s.Outcome.Warm) { // one that waited, and has said nothing, may have died before
			s.compileOverdue(limit)
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("wait for the compile step: %w", err)
		}
		s.begun = true
		switch e.Type {
		case agentwire.TypeCompileOutput:
			s.compileOutput.Write(e.Payload)
			s.returnCredit(e.Frame)
		case agentwire.TypeCompiled:
			c := e.message.(agentwire.Compiled)
			s.Outcome.Preloaded = c.Preloaded
			s.compiled(c.ExitCode, c.WallMS)
			if c.ExitCode == 0 {
				return false, nil
			}
			s.Outcome.Status, s.Outcome.ExitCode = job.CompileFailed, c.ExitCode
			s.Outcome.Timing.Exited = e.at.Sub(s.began)
			return true, s.awaitEnd(ctx)
		case agentwire.TypeRefused:
			return true, s.refused(ctx, e)
		default:
			return false, s.unexpected(e)
		}
	}
}

// compiled is what the compile step came to.
func (s *Session) compiled(exitCode int, wallMS int64) {
	s.Outcome.Compile = &job.Compile{ExitCode: exitCode, WallMS: wallMS, Output: strings.ToValidUTF8(s.compileOutput.String(), "\uFFFD")}
	if sink, ok := s.task.Sink.(sandbox.CompiledSink); ok {
		sink.Compiled(*s.Outcome.Compile)
	}
}

// compileOverdue is the outcome of a program whose compile step has had its time, whatever the agent is busy with.
func (s *Session) compileOverdue(limit time.Duration) {
	s.begun = true
	s.Outcome.Timing.Exited = time.Since(s.began)
	if s.Cgroup != nil && s.Cgroup.OOMKilled() { // and nobody has said so yet
		s.outOfMemory()
		return
	}
	s.Outcome.Silent = true
	s.compileOutput.WriteString("Compilation timed out\n")
	s.compiled(job.TimedOutExitCode, limit.Milliseconds())
	s.Outcome.Status, s.Outcome.ExitCode = job.CompileFailed, job.TimedOutExitCode
}

// awaitStart waits for the program's start, and reports whether it was refused instead.
func (s *Session) awaitStart(ctx context.Context, limit time.Duration) (refused bool, err error) {
	e, err := s.events.pop(ctx, limit)
	if err != nil {
		return false, fmt.Errorf("wait for the program's start: %w", err)
	}
	s.begun = true
	switch message := e.message.(type) {
	case agentwire.Started:
		s.Outcome.Preloaded = s.Outcome.Preloaded || message.Preloaded // a session begins with it
		s.Outcome.Startup = e.at.Sub(s.began)
		s.Outcome.Timing.Started = s.Outcome.Startup
		return false, nil
	case agentwire.Refused:
		return true, s.refused(ctx, e)
	}
	return false, s.unexpected(e)
}

// refused is the end of a job whose inputs don't fit its own limits.
func (s *Session) refused(ctx context.Context, e event) error {
	s.Outcome.Status, s.Outcome.ExitCode = job.Failed, 1
	if s.task.Program.Tests != nil { // there is no run whose stderr could have it
		return s.unfit(ctx, e)
	}
	s.Outcome.Startup = e.at.Sub(s.began)
	s.Outcome.Timing.Exited = s.Outcome.Startup
	if err := s.addStderr(e.message.(agentwire.Refused).Message + "\n"); err != nil {
		return err
	}
	return s.awaitEnd(ctx)
}

// run passes output on until the program's exit. The time that counts against the
// limit is that spent waiting here, so that a slow sink is not held against the agent.
func (s *Session) run(ctx context.Context, limit time.Duration) (overdue bool, err error) {
	var waited time.Duration
	for {
		from := time.Now()
		e, err := s.events.pop(ctx, limit-waited)
		waited += time.Since(from)
		if errors.Is(err, errOverdue) {
			// Whatever the agent is busy with: the program has had its time.
			s.Outcome.Usage.WallMS = waited.Milliseconds()
			if s.Cgroup != nil && s.Cgroup.OOMKilled() { // and nobody has said so yet
				s.outOfMemory()
				return true, nil
			}
			s.Outcome.Limit, s.Outcome.Silent = "wall_ms", true
			return true, s.timedOut()
		}
		if err != nil {
			return false, fmt.Errorf("wait for the program's end: %w", err)
		}
		switch e.Type {
		case agentwire.TypeStdout:
			err = s.task.Sink.Stdout(e.Payload)
		case agentwire.TypeStderr:
			s.lastStderr = e.Payload[len(e.Payload)-1]
			err = s.task.Sink.Stderr(e.Payload)
		case agentwire.TypeShown:
			if sink, ok := s.task.Sink.(sandbox.ShownSink); ok {
				err = sink.Shown(e.Payload)
			}
		case agentwire.TypeExit:
			return false, s.exit(e)
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return false, err
		}
		s.returnCredit(e.Frame)
	}
}

func (s *Session) exit(e event) error {
	exit := e.message.(agentwire.Exit)
	s.Outcome.Timing.Exited = e.at.Sub(s.began)
	s.Outcome.ExitCode, s.Outcome.Signal, s.Outcome.Usage = exit.ExitCode, exit.Signal, exit.Usage
	s.Outcome.StdoutTruncated, s.Outcome.StderrTruncated = exit.StdoutTruncated, exit.StderrTruncated
	s.Outcome.Limit = limitOf[exit.Cause]
	s.stateLost, s.lostContexts, s.Outcome.ShownLeftOut = exit.Lost, exit.LostContexts, exit.ShownLeftOut
	switch exit.Cause {
	case agentwire.Wall, agentwire.CPU:
		return s.timedOut()
	case agentwire.Memory, agentwire.AddressSpace:
		s.Outcome.Status = job.OutOfMemory
	case agentwire.Output:
		s.Outcome.Status = job.OutputLimitExceeded
	case agentwire.Processes:
		s.Outcome.Status = job.Failed
		return s.addStderr(fmt.Sprintf("glovebox: far more processes than limits.processes (%d)\n", s.task.Program.Limits.Processes))
	case agentwire.Killed:
		if s.task.Program.Turns != nil {
			s.Outcome.Status, s.interrupted = job.Canceled, true
			return nil
		}
		return errors.New("the agent ended the program although nobody asked it to")
	case agentwire.Exited:
		s.Outcome.Status = job.Succeeded
		if exit.ExitCode != 0 || exit.Signal != "" {
			s.Outcome.Status = job.Failed
		}
	}
	return nil
}

// Used is what the program has used: of one that was ended no more than for how long it ran.
func (s *Session) Used() job.Usage {
	t := s.Outcome.Timing
	switch {
	case t.Exited > 0 && s.task.Program.Tests == nil:
		return s.Outcome.Usage
	case t.Started > 0:
		return job.Usage{WallMS: (time.Since(s.began) - t.Started).Milliseconds()}
	}
	return job.Usage{}
}

// limitOf names the limit that a program ended by.
var limitOf = map[agentwire.Cause]string{
	agentwire.Wall: "wall_ms", agentwire.CPU: "cpu_ms", agentwire.Memory: "memory_mb", agentwire.Output: "output_kb",
	agentwire.Processes: "processes", agentwire.AddressSpace: "address_space_mb",
}

// outOfMemory is the outcome of a program whose whole sandbox was killed for its memory.
func (s *Session) outOfMemory() {
	s.Outcome.Status, s.Outcome.ExitCode, s.Outcome.Signal, s.Outcome.Limit = job.OutOfMemory, 137, "SIGKILL", "memory_mb"
}

// timedOut is the outcome of a program that had its time, and tells the user on stderr.
func (s *Session) timedOut() error {
	s.Outcome.Status, s.Outcome.ExitCode, s.Outcome.Signal = job.TimedOut, job.TimedOutExitCode, ""
	return s.addStderr("Execution timed out\n")
}

// addStderr adds a line of Glovebox's own to the program's stderr.
func (s *Session) addStderr(line string) error {
	if s.lastStderr != 0 && s.lastStderr != '\n' {
		line = "\n" + line
	}
	return s.task.Sink.Stderr([]byte(line))
}
