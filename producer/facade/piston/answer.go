package piston

import (
	"context"
	"fmt"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// execution is the answer of execute.
type execution struct {
	language, version string
	run               stage
	compile           *stage // nil for none
}

// write answers it.
func (e execution) write(w http.ResponseWriter) {
	facade.WriteObject(w, http.StatusOK, func(o *facade.Object) {
		o.Field("language", e.language)
		o.Field("version", e.version)
		o.Object("run", e.run.write)
		if e.compile != nil {
			o.Object("compile", e.compile.write)
		}
	})
}

// stage is what a step did. What is not known is null.
type stage struct {
	stdout, stderr          []byte
	code                    *int
	signal, message, status *string
	cpuTime, wallTime       *int64 // ms
	memory                  *int64 // bytes
}

func (s stage) write(o *facade.Object) {
	o.Text("stdout", facade.Valid, s.stdout)
	o.Text("stderr", facade.Valid, s.stderr)
	o.Text("output", facade.Valid, s.stdout, s.stderr)
	o.Field("code", s.code)
	o.Field("signal", s.signal)
	o.Field("message", s.message)
	o.Field("status", s.status)
	o.Field("cpu_time", s.cpuTime)
	o.Field("wall_time", s.wallTime)
	o.Field("memory", s.memory)
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
	e := execution{language: program.Language, version: program.Version}
	if r.Compile != nil {
		e.compile = compileStage(r)
	}
	if r.Status == job.CompileFailed && e.compile != nil {
		e.run = *e.compile
		return e, nil
	}
	stdout, err := c.Bytes(ctx, r, producer.Stdout)
	if err != nil {
		return e, err
	}
	stderr, err := c.Bytes(ctx, r, producer.Stderr)
	if err != nil {
		return e, err
	}
	e.run = runStage(r, len(stderr) > len(stdout))
	e.run.stdout, e.run.stderr = stdout, stderr
	return e, nil
}

// runStage is what a program did that was run, without what it printed. longErr: more on stderr than on stdout.
func runStage(r job.Result, longErr bool) stage {
	u := r.Usage
	s := stage{code: r.ExitCode, cpuTime: &u.CPUMS, wallTime: &u.WallMS, memory: &u.MemoryPeakBytes}
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
		s.code, s.signal = nil, &r.Signal
	case r.ExitCode == nil: // nothing ran, and why not is all that there is to tell
		if r.Error != nil {
			s.end("XX", r.Error.Message)
		}
	case *r.ExitCode != 0:
		s.end(exited, fmt.Sprintf("Exited with error status %d", *r.ExitCode))
	}
	return s
}

// compileStage is what the compile step did. Its streams are one, which clients show as stderr.
func compileStage(r job.Result) *stage {
	output := facade.CompileOutput(r)
	code, wall := r.Compile.ExitCode, r.Compile.WallMS
	s := &stage{stderr: []byte(output), code: &code, wallTime: &wall}
	switch {
	case r.Status != job.CompileFailed:
	case output != r.Compile.Output: // it had the line that says so
		s.killed(timedOut, "Time limit exceeded (wall clock)")
	case code > 128 && unix.SignalName(syscall.Signal(code-128)) != "":
		signal := unix.SignalName(syscall.Signal(code - 128))
		s.end(signaled, fmt.Sprintf("Caught fatal signal %d", code-128))
		s.code, s.signal = nil, &signal
	default:
		s.end(exited, fmt.Sprintf("Exited with error status %d", code))
	}
	return s
}

// end says how a stage ended that did not end well.
func (s *stage) end(status, message string) { s.status, s.message = &status, &message }

// killed is end for a stage that passed a limit.
func (s *stage) killed(status, message string) {
	signal := "SIGKILL"
	s.code, s.signal = nil, &signal
	s.end(status, message)
}
