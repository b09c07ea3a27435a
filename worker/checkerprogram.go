package worker

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// checkerProgram judges a submission's outputs by a program that somebody wrote for the problem. It has a
// sandbox of its own, which does for all tests, as the submission's does: the program is compiled once, and
// nothing of one check is left for the next. Not safe for concurrent use.
type checkerProgram struct {
	worker  *Worker
	kind    string // job.CheckKattis or job.CheckTestlib
	program sandbox.Program
	begin   func() *checkerSandbox // starts a sandbox, which lives for as long as the job, not as the submission's
	sandbox *checkerSandbox        // nil: none is there
	lost    int                    // how many it has ended
	// broken says why it can judge nothing any more; "": it can.
	broken grading.Ruling
}

//go:embed checkerscript.sh
var checkerScript string

// checkerFiles are the first arguments of a checker, by its kind: where the script lays what it reads.
var checkerFiles = map[string][]string{
	job.CheckKattis:  {"/tmp/.glovebox/input", "/tmp/.glovebox/answer", "/tmp/.glovebox/feedback/"},
	job.CheckTestlib: {"/tmp/.glovebox/input", "/tmp/.glovebox/output", "/tmp/.glovebox/answer"},
}

// newCheckerProgram returns the checker of a job whose checker is a program, isolated as the job is. An error that is an
// inputError is the job's.
func (w *Worker) newCheckerProgram(ctx context.Context, j record.Job, graded job.Spec) (*checkerProgram, error) {
	checker := *graded.Checker
	spec := checker.Program.Spec()
	runtime, ok := w.Runtimes.Lookup(spec.Runtime)
	if !ok {
		return nil, fmt.Errorf("this worker has no runtime %q for the checker", spec.Runtime)
	}
	imageCtx, cancel := context.WithTimeout(ctx, w.ImageTimeout)
	defer cancel()
	if _, err := w.Sandboxes.Image(imageCtx, runtime.Image()); err != nil {
		return nil, err
	}
	files, entrypoint, err := w.checkerSources(ctx, j.Tenant, spec, runtime.File)
	if err != nil {
		return nil, err
	}
	compile, command := runtime.Command(entrypoint, nil)
	if spec.Commands != nil {
		compile, command = spec.Commands.Argv(nil)
	}
	argv := append([]string{"/bin/bash", "-c", "--", checkerScript, "bash"}, command...)
	argv = append(append(argv, checkerFiles[checker.Kind]...), checker.Args...)
	c := &checkerProgram{worker: w, kind: checker.Kind, program: sandbox.Program{
		JobID: j.ID, Epoch: j.Epoch, Image: runtime.Image(), Compile: compile, Command: argv,
		Env: runtime.Env, Files: files, Limits: checkerLimits(spec, runtime, graded.Passes()), Isolation: graded.Isolation,
	}}
	c.begin = func() *checkerSandbox { return c.start(ctx) }
	return c, nil
}

// checkerSources reads a checker's files, which are small.
func (w *Worker) checkerSources(ctx context.Context, tenant string, spec job.Spec, runtimeFile string) (files []sandbox.File, entrypoint string, err error) {
	entrypoint = entrypointOf(spec, runtimeFile)
	if spec.Source != "" {
		files = append(files, sandbox.File{Name: entrypoint, Content: []byte(spec.Source)})
	}
	left := int64(job.MaxCheckerBytes)
	for _, f := range spec.Files {
		f.SHA256 = f.Upload // its name is its digest
		r, err := w.openTestFile(ctx, tenant, f)
		if err != nil {
			return nil, "", fmt.Errorf("read the checker's %q: %w", f.Name, err)
		}
		content, err := io.ReadAll(io.LimitReader(r, left+1))
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, "", fmt.Errorf("read the checker's %q: %w", f.Name, err)
		}
		if left -= int64(len(content)); left < 0 {
			return nil, "", &inputError{&job.Error{Code: job.CodeInputConflict, Message: fmt.Sprintf("the checker's files have more than %d bytes", job.MaxCheckerBytes)}}
		}
		files = append(files, sandbox.File{Name: f.Name, Content: content})
	}
	return files, entrypoint, nil
}

// What the script reports, KiB: a little more than its files, and than what is for a further pass.
const (
	reportKB     = 512
	passReportKB = (job.MaxPassInput + job.MaxPassState) >> 10
)

// checkerLimits are those of each check. What the script reports has room, whatever the program prints.
func checkerLimits(spec job.Spec, runtime runtimes.Runtime, passes int) job.Limits {
	disk := spec.Limits.DiskMB
	l := limitsOf(spec, runtime)
	if disk == 0 {
		l.DiskMB = max(l.DiskMB, l.MemoryMB)
		l.FileMB = l.DiskMB
	}
	l.OutputKB = reportKB
	if passes > 1 {
		l.OutputKB += passReportKB
	}
	return l
}

// checkerMB is what the sandbox of a job's checker may use, MiB, and what its files take of this process.
func (w *Worker) checkerMB(spec job.Spec) int64 {
	program := spec.CheckerProgram()
	if program == nil {
		return 0
	}
	runtime, _ := w.Runtimes.Lookup(program.Runtime)
	l := checkerLimits(program.Spec(), runtime, spec.Passes())
	mb := l.SandboxMB() + sandbox.CostMB(l) + job.MaxCheckerBytes>>20
	if spec.Passes() > 1 {
		const reports = 4 // the one that a pass goes on from, and that pass's own, which is copied as it grows and at its end
		mb += reports * passReportKB >> 10
	}
	return mb
}

// checkingTime is the most that the checks of all tests can take, and 0 for a checker that is no program.
func (w *Worker) checkingTime(spec job.Spec) time.Duration {
	program := spec.CheckerProgram()
	if program == nil {
		return 0
	}
	runtime, _ := w.Runtimes.Lookup(program.Runtime)
	l := checkerLimits(program.Spec(), runtime, spec.Passes())
	return time.Duration(len(spec.Tests)*spec.Passes())*(wallTime(l)+testOverhead) + overrun + (1+maxLost)*(wallTime(l)+compileTime(l)+sandboxOverhead)
}

// content is what a checker reads, and how long it is.
type content struct {
	io.Reader
	size int64
}

// toCheck is a pass of a test, as its checker gets it.
type toCheck struct {
	input, answer, output content
	state                 []byte // what the checker kept of the pass before
	more                  int    // how many passes may follow
	args                  []string
}

// check judges one output. An error is Glovebox's, or that of a reader.
func (c *checkerProgram) check(ctx context.Context, t toCheck) (grading.Ruling, error) {
	for {
		if c.broken.Verdict != "" {
			return c.broken, nil
		}
		if c.sandbox == nil {
			c.sandbox = c.begin()
		}
		header := fmt.Sprintf("%d %d %d %d %d %d\n", t.input.size, t.answer.size, len(t.state), t.more, job.MaxPassInput, job.MaxPassState)
		stdin := io.MultiReader(strings.NewReader(header), exactly(t.input), exactly(t.answer), bytes.NewReader(t.state), t.output)
		o, began, err := c.sandbox.run(ctx, sandbox.Test{Args: t.args, Stdin: sandbox.File{
			Name: "what the checker reads", Size: -1, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(stdin), nil },
		}})
		if err != nil {
			c.close()
			return grading.Ruling{}, err
		}
		if o.end == nil {
			return c.rule(o, t.more), nil
		}
		c.close()
		if ruling, decided := c.ended(*o.end, began); decided {
			return ruling, nil
		}
	}
}

// rule is what a check came to whose sandbox goes on.
func (c *checkerProgram) rule(o checkOutcome, more int) grading.Ruling {
	var r grading.Ruling
	switch o.Status { //nolint:exhaustive // others don't come out of a sandbox
	case job.Succeeded:
		if c.kind == job.CheckTestlib {
			return grading.RuleTestlib(o.report, o.stderr)
		}
		r = grading.Rule(o.report, more)
	case job.TimedOut:
		r = fault("the checker was not done in %d ms of wall time or %d ms of CPU time (checker.program.limits)", c.program.Limits.WallMS, c.program.Limits.CPUMS)
	case job.OutOfMemory:
		r = fault("the checker ran out of memory; it has %d MiB (checker.program.limits.memory_mb)", c.program.Limits.MemoryMB)
	default:
		r = grading.Rule(nil, more)
	}
	if r.Verdict == job.JudgeError {
		r.Judge += o.stderr
	}
	return r
}

// ended notes that the sandbox has ended. decided is false where the check had not begun, and may be made
// in another.
func (c *checkerProgram) ended(o sandbox.Outcome, began bool) (r grading.Ruling, decided bool) {
	switch {
	case o.Status == job.CompileFailed:
		const most = 1000 // of what the compiler said, which has seen nothing of the tests
		said := ""
		if o.Compile != nil {
			said = o.Compile.Output[:min(most, len(o.Compile.Output))]
		}
		c.broken = fault("the checker could not be compiled: %s", strings.ToValidUTF8(said, ""))
		return c.broken, true
	case began && o.Status == job.OutOfMemory:
		r = fault("the checker ran out of memory; it has %d MiB (checker.program.limits.memory_mb)", c.program.Limits.MemoryMB)
	case began:
		r = fault("the checker ended its sandbox")
	}
	if c.lost++; c.lost > maxLost {
		c.broken = fault("the checker has ended %d sandboxes", c.lost)
		if !began {
			return c.broken, true
		}
	}
	return r, began
}

func fault(format string, args ...any) grading.Ruling {
	return grading.Ruling{Verdict: job.JudgeError, Fault: fmt.Sprintf(format, args...)}
}

// close ends the sandbox.
func (c *checkerProgram) close() {
	if c == nil || c.sandbox == nil {
		return
	}
	c.sandbox.cancel()
	<-c.sandbox.over
	c.sandbox = nil
}

// exactly fails where a reader has another length than was said: the script could not tell one part from
// the next.
func exactly(c content) io.Reader { return &exactReader{c.Reader, c.size} }

type exactReader struct {
	r    io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.left -= int64(n)
	if e.left < 0 || errors.Is(err, io.EOF) && e.left > 0 {
		return 0, errors.New("what the checker reads has changed its length")
	}
	return n, err
}

// checkerSandbox is a sandbox in which checks are made, one after another.
type checkerSandbox struct {
	cancel context.CancelFunc
	tests  chan sandbox.Test
	checks chan checkOutcome
	over   chan struct{} // closed once there will be no more; then end and err are set
	end    sandbox.Outcome
	err    error

	// Of the current check, for the goroutine that serves the sandbox.
	report bytes.Buffer
	stderr []byte
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
	s := &checkerSandbox{cancel: cancel, tests: make(chan sandbox.Test), checks: make(chan checkOutcome, 1), over: make(chan struct{})}
	program := c.program
	program.Tests = s
	go func() {
		defer close(s.over)
		defer cancel()
		s.end, s.err = c.worker.Sandboxes.Run(ctx, program, s)
	}()
	return s
}

// run makes one check. began says whether it was handed to the sandbox. It fails once ctx ends: the submission's
// sandbox is gone, or the job is over.
func (s *checkerSandbox) run(ctx context.Context, t sandbox.Test) (o checkOutcome, began bool, err error) {
	select {
	case s.tests <- t:
	case <-ctx.Done():
		return checkOutcome{}, false, context.Cause(ctx)
	case <-s.over:
		return checkOutcome{end: &s.end}, false, s.err
	}
	select {
	case o := <-s.checks:
		return o, true, nil
	case <-ctx.Done():
		return checkOutcome{}, true, context.Cause(ctx)
	case <-s.over:
	}
	select {
	case o := <-s.checks: // it was the last
		return o, true, nil
	default:
		return checkOutcome{end: &s.end}, true, s.err
	}
}

// Next is [sandbox.Tests.Next]: it waits until an output is to be judged.
func (s *checkerSandbox) Next(ctx context.Context) (sandbox.Test, bool, error) {
	select {
	case t := <-s.tests:
		s.report.Reset()
		s.stderr = s.stderr[:0]
		return t, true, nil
	case <-ctx.Done():
		return sandbox.Test{}, false, context.Cause(ctx)
	}
}

// Ended is [sandbox.Tests.Ended].
func (s *checkerSandbox) Ended(_ context.Context, o sandbox.TestOutcome) error {
	s.checks <- checkOutcome{TestOutcome: o, report: bytes.Clone(s.report.Bytes()), stderr: string(s.stderr)}
	return nil
}

// Stdout is the script's report, which the sandbox has bounded.
func (s *checkerSandbox) Stdout(p []byte) error {
	s.report.Write(p)
	return nil
}

// Stderr keeps the beginning.
func (s *checkerSandbox) Stderr(p []byte) error {
	s.stderr = append(s.stderr, p[:min(len(p), job.ShownOutput-len(s.stderr))]...)
	return nil
}

// Artifact is never called: programs with tests have none.
func (s *checkerSandbox) Artifact(context.Context, string, int64, io.Reader) error {
	return errors.New("a checker has no artifacts")
}
