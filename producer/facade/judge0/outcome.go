package judge0

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// outcome is what became of a submission, in Judge0's terms.
type outcome struct {
	status                         int
	message                        string
	exitCode, exitSignal           *int
	time, wallTime                 *float64 // s
	memory                         *int64   // kB
	stdout, stderr, compilerOutput []byte
	created                        time.Time
	finished                       *time.Time
}

// waiting is the outcome of a submission that has not ended.
func waiting(j producer.Job, begun bool) outcome {
	o := outcome{status: inQueue, created: j.Timing.CreatedAt}
	if begun || j.Status != job.Queued {
		o.status = processing
	}
	return o
}

// judge translates a result. Streams are read where they are asked for, or have to be compared.
func (s *submission) judge(ctx context.Context, c *facade.Call, r job.Result, streams bool) (outcome, error) {
	o := outcome{created: r.Timing.CreatedAt, finished: r.Timing.FinishedAt, compilerOutput: []byte(facade.CompileOutput(r))}
	switch r.Status {
	case job.CompileFailed:
		o.status = compilationError
		return o, nil
	case job.Canceled, job.InternalError:
		o.status, o.message = internalError, "canceled"
		if r.Error != nil {
			o.message = r.Error.Message
		}
		return o, nil
	}
	var err error
	if streams || s.Expected != nil {
		if o.stdout, err = c.Output(ctx, r, producer.Stdout); err != nil {
			return o, err
		}
	}
	if streams || s.LanguageID == executable {
		if o.stderr, err = c.Output(ctx, r, producer.Stderr); err != nil {
			return o, err
		}
	}
	o.measure(r.Usage)
	o.exit(r)
	s.decide(&o, r)
	return o, nil
}

const (
	milli    = 1000
	kilobyte = 1024
)

func (o *outcome) measure(u job.Usage) {
	cpu, wall, memory := float64(u.CPUMS)/milli, float64(u.WallMS)/milli, u.MemoryPeakBytes/kilobyte
	o.time, o.wallTime, o.memory = &cpu, &wall, &memory
}

// exit says how the program ended.
func (o *outcome) exit(r job.Result) {
	if r.Signal != "" {
		if n := int(unix.SignalNum(r.Signal)); n != 0 {
			o.exitSignal = &n
		}
		return
	}
	if r.ExitCode != nil && r.Status != job.TimedOut {
		code := *r.ExitCode
		o.exitCode = &code
	}
}

// decide finds the status.
func (s *submission) decide(o *outcome, r job.Result) {
	const wallClock = "Time limit exceeded (wall clock)"
	switch r.Status {
	case job.TimedOut:
		o.status, o.message = timeLimit, "Time limit exceeded"
		if r.Limit == "wall_ms" {
			o.message = wallClock
		}
		return
	case job.OutputLimitExceeded:
		o.status = runtimeSIGXFSZ
		return
	case job.OutOfMemory:
		o.status = runtimeOther
		if r.Signal == "" && r.ExitCode != nil {
			o.status = runtimeNZEC
		}
	case job.Failed:
		o.status = runtimeNZEC
		if o.exitSignal != nil {
			o.status = signalStatus(syscall.Signal(*o.exitSignal))
		}
	default:
		o.status = accepted
		if s.Expected != nil && !same(*s.Expected, o.stdout) {
			o.status = wrongAnswer
		}
	}
	switch {
	case *o.time > s.CPUTime:
		o.status, o.message = timeLimit, "Time limit exceeded"
		return
	case o.exitSignal != nil:
		o.message = fmt.Sprintf("Caught fatal signal %d", *o.exitSignal)
	case o.exitCode != nil && *o.exitCode != 0:
		o.message = fmt.Sprintf("Exited with error status %d", *o.exitCode)
	}
	const cannotExecute = 126 // POSIX's shell
	if s.LanguageID == executable && o.exitCode != nil && *o.exitCode == cannotExecute && strings.Contains(string(o.stderr), "Exec format error") {
		o.status = execFormatError
	}
}

// signalStatus is that of a program which a signal ended.
func signalStatus(s syscall.Signal) int {
	switch s {
	case syscall.SIGSEGV:
		return runtimeSIGSEGV
	case syscall.SIGXFSZ:
		return runtimeSIGXFSZ
	case syscall.SIGFPE:
		return runtimeSIGFPE
	case syscall.SIGABRT:
		return runtimeSIGABRT
	}
	return runtimeOther
}

// same compares outputs as Judge0 does: without blanks at the ends of lines, nor empty lines at the end.
func same(a, b []byte) bool { return bytes.Equal(trimmed(a), trimmed(b)) }

func trimmed(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		lines[i] = bytes.TrimRight(line, " \t\v\f\r\x00")
	}
	return bytes.TrimRight(bytes.Join(lines, []byte("\n")), "\n")
}

// average is the outcome of several runs, the last of which decides: each before that was accepted.
func average(runs []outcome) outcome {
	all := runs[len(runs)-1]
	if all.time == nil {
		return all
	}
	var cpu, wall float64
	var memory int64
	for _, r := range runs {
		cpu, wall, memory = cpu+*r.time, wall+*r.wallTime, memory+*r.memory
	}
	n := float64(len(runs))
	cpu, wall, memory = round(cpu/n), round(wall/n), memory/int64(len(runs))
	all.time, all.wallTime, all.memory = &cpu, &wall, &memory
	return all
}

// round leaves milliseconds.
func round(seconds float64) float64 { return math.Round(seconds*milli) / milli }
