package piston

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// execution is the answer of execute.
type execution struct {
	Language string `json:"language"`
	Version  string `json:"version"`
	Run      stage  `json:"run"`
	Compile  *stage `json:"compile,omitempty"`
}

// stage is what a step did. What is not known is null.
type stage struct {
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Output   string  `json:"output"` // both
	Code     *int    `json:"code"`
	Signal   *string `json:"signal"`
	Message  *string `json:"message"`
	Status   *string `json:"status"`
	CPUTime  *int64  `json:"cpu_time"`  // ms
	WallTime *int64  `json:"wall_time"` // ms
	Memory   *int64  `json:"memory"`    // bytes
}

// What a stage's status may be: isolate's, and of an output that is too long.
const (
	exited       = "RE"
	signaled     = "SG"
	timedOut     = "TO"
	stdoutLength = "OL"
	stderrLength = "EL"
)

// answer says what a program did.
func answer(ctx context.Context, c *facade.Call, program runtime, r job.Result) (execution, error) {
	e := execution{Language: program.Language, Version: program.Version}
	if r.Compile != nil {
		e.Compile = compileStage(r)
	}
	if r.Status == job.CompileFailed && e.Compile != nil {
		e.Run = *e.Compile
		return e, nil
	}
	stdout, err := c.Output(ctx, r, producer.Stdout)
	if err != nil {
		return e, err
	}
	stderr, err := c.Output(ctx, r, producer.Stderr)
	if err != nil {
		return e, err
	}
	if r.StdoutURL+r.StderrURL != "" && c.Host != nil { // else the result is held itself
		if err := c.Host.Hold(ctx, againWeight*(int64(len(stdout)+len(stderr))+facade.Escapes(stdout)+facade.Escapes(stderr))); err != nil {
			return e, err
		}
	}
	e.Run = runStage(r, len(stderr) > len(stdout))
	e.Run.Stdout, e.Run.Stderr = valid(stdout), valid(stderr)
	e.Run.Output = e.Run.Stdout + e.Run.Stderr
	return e, nil
}

// runStage is what a program did that was run, without what it printed. longErr: more on stderr than on stdout.
func runStage(r job.Result, longErr bool) stage {
	u := r.Usage
	s := stage{Code: r.ExitCode, CPUTime: &u.CPUMS, WallTime: &u.WallMS, Memory: &u.MemoryPeakBytes}
	switch {
	case r.Status == job.TimedOut:
		message := "Time limit exceeded"
		if r.Limit != "cpu_ms" {
			message += " (wall clock)"
		}
		s.killed(timedOut, message)
	case r.Status == job.OutputLimitExceeded && longErr:
		s.killed(stderrLength, "stderr length exceeded")
	case r.Status == job.OutputLimitExceeded:
		s.killed(stdoutLength, "stdout length exceeded")
	case r.Signal != "":
		s.end(signaled, fmt.Sprintf("Caught fatal signal %d", facade.SignalNumber(r.Signal)))
		s.Code, s.Signal = nil, &r.Signal
	case r.ExitCode == nil: // nothing ran, and why not is all that there is to tell
		if r.Error != nil {
			s.end("XX", r.Error.Message)
		}
	case *r.ExitCode != 0:
		s.end(exited, fmt.Sprintf("Exited with error status %d", *r.ExitCode))
	}
	return s
}

// againWeight is how many times what both streams take in JSON is there since they are answered once more as one: as text, and in an
// encoder's buffer.
const againWeight = 2

// compileStage is what the compile step did. Its streams are one, which clients show as stderr.
func compileStage(r job.Result) *stage {
	output := facade.CompileOutput(r)
	code, wall := r.Compile.ExitCode, r.Compile.WallMS
	s := &stage{Stderr: output, Output: output, Code: &code, WallTime: &wall}
	switch {
	case r.Status != job.CompileFailed:
	case output != r.Compile.Output: // it had the line that says so
		s.killed(timedOut, "Time limit exceeded (wall clock)")
	case code > 128 && unix.SignalName(syscall.Signal(code-128)) != "":
		signal := unix.SignalName(syscall.Signal(code - 128))
		s.end(signaled, fmt.Sprintf("Caught fatal signal %d", code-128))
		s.Code, s.Signal = nil, &signal
	default:
		s.end(exited, fmt.Sprintf("Exited with error status %d", code))
	}
	return s
}

// end says how a stage ended that did not end well.
func (s *stage) end(status, message string) { s.Status, s.Message = &status, &message }

// killed is end for a stage that passed a limit.
func (s *stage) killed(status, message string) {
	signal := "SIGKILL"
	s.Code, s.Signal = nil, &signal
	s.end(status, message)
}

// valid replaces what is not UTF-8, as Node does.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
