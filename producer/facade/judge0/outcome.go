package judge0

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

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
	files                          []byte // a zip
	created                        time.Time
	finished                       *time.Time
}

// waiting is the outcome of a submission that has not ended.
func waiting(j producer.Job, begun bool) outcome {
	o := outcome{status: inQueue, created: j.Timing.CreatedAt}
	if begun || j.Status == job.Running {
		o.status = processing
	}
	return o
}

// judge translates a result, without its streams: what a program printed is compared as it is read.
func (s *submission) judge(ctx context.Context, c *facade.Call, r job.Result) (outcome, error) {
	o := outcome{created: r.Timing.CreatedAt, finished: r.Timing.FinishedAt, compilerOutput: []byte(facade.CompileOutput(r))}
	neverRan := r.Status == job.Failed && r.ExitCode == nil && r.Signal == "" && r.Error != nil // a file of it is gone, say
	switch {
	case r.Status == job.CompileFailed:
		o.status = compilationError
		if r.Compile != nil && facade.CompileOutput(r) != r.Compile.Output { // its time was up
			o.compilerOutput = []byte("Compilation time limit exceeded.")
		}
		return o, nil
	case r.Status == job.Canceled, r.Status == job.InternalError, neverRan:
		o.status, o.message = internalError, "canceled"
		if r.Error != nil {
			o.message = r.Error.Message
		}
		return o, nil
	}
	o.measure(r.Usage)
	o.exit(r)
	o.decide(s, r)
	switch {
	case o.status == accepted && s.ExpectedSum != nil:
		same, err := s.printed(ctx, c, r)
		if err != nil {
			return o, err
		}
		if !same {
			o.status = wrongAnswer
		}
	case s.LanguageID == executable && o.exitCode != nil && *o.exitCode == cannotExecute:
		said, err := c.Head(ctx, r, producer.Stderr, job.InlineOutput)
		if err != nil {
			return o, err
		}
		if strings.Contains(string(said), "Exec format error") {
			o.status = execFormatError
		}
	}
	return o, nil
}

// cannotExecute is POSIX's shell's exit status for a file that is no program.
const cannotExecute = 126

// printed reports whether a program printed what was expected.
func (s *submission) printed(ctx context.Context, c *facade.Call, r job.Result) (bool, error) {
	f, _, err := c.Stream(ctx, r, producer.Stdout)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum, err := readTrimmedSum(f)
	if err != nil {
		return false, fmt.Errorf("read stdout of job %s: %w", r.ID, err)
	}
	return bytes.Equal(sum, s.ExpectedSum), nil
}

// read reads the streams that are to be shown.
func (o *outcome) read(ctx context.Context, c *facade.Call, r job.Result, v view) (err error) {
	if o.time == nil { // it did not run
		return nil
	}
	head := c.Head
	if v.encoded {
		head = c.HeadInBase64
	}
	if v.shows("stdout") {
		if o.stdout, err = head(ctx, r, producer.Stdout, v.most); err != nil {
			return err
		}
	}
	if v.shows("stderr") {
		if o.stderr, err = head(ctx, r, producer.Stderr, v.most); err != nil {
			return err
		}
	}
	if v.shows(filesystem) {
		o.files, err = readFiles(ctx, c, r)
	}
	return err
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
		if n := facade.SignalNumber(r.Signal); n != 0 {
			o.exitSignal = &n
		}
		return
	}
	if r.ExitCode != nil && r.Status != job.TimedOut {
		code := *r.ExitCode
		o.exitCode = &code
	}
}

// decide finds the status, as far as it needs no output.
func (o *outcome) decide(s *submission, r job.Result) {
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
