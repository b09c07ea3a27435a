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
	started time.Time // the job was
	kind    string    // job.CheckKattis or job.CheckTestlib
	limits  job.Limits
	program sandbox.Program        // whose limits have the time of a dialog, too
	image   string                 // the digest of its image
	key     compiledKey            // of what its compile step makes; zero: it has none
	packed  bool                   // it made that to be kept, which a job does once
	begin   func() *checkerSandbox // starts a sandbox, which lives for as long as the job, not as the submission's
	sandbox *checkerSandbox        // nil: none is there
	lost    int                    // how many it has ended
	slow    bool                   // its compile step was not done in its time
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

// newCheckerProgram returns the checker of a job whose checker is a program, isolated as the job is. program are the limits of what it
// judges. An error that is an inputError is the job's.
func (w *Worker) newCheckerProgram(ctx context.Context, j record.Record, graded job.Spec, program job.Limits) (*checkerProgram, error) {
	checker := *graded.Checker
	spec := checker.Program.Spec()
	runtime, ok := w.Runtimes.Lookup(spec.Runtime)
	if !ok {
		return nil, fmt.Errorf("this worker has no runtime %q for the checker", spec.Runtime)
	}
	imageCtx, cancel := context.WithTimeout(ctx, w.ImageTimeout)
	defer cancel()
	image, err := w.Sandboxes.Image(imageCtx, runtime.Image())
	if err != nil {
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
	limits := checkerLimits(spec, runtime, checker)
	c := &checkerProgram{worker: w, started: j.Started, kind: checker.Kind, limits: limits, image: image, program: sandbox.Program{
		JobID: j.ID, Epoch: j.Epoch, Image: runtime.Image(), Compile: compile, Command: argv,
		Env: runtime.Env, Files: files, Limits: limits, Interactive: checker.Interactive, Isolation: graded.Isolation,
	}}
	if checker.Interactive { // it begins before the program, and has its own time once it can hear of that one's end
		c.program.Limits.WallMS += program.WallMS + lastWord.Milliseconds()
		if checker.Passes > 1 { // what is for the next pass comes on stderr, too
			c.program.StderrKB = reportKB + passReportKB
		}
	}
	if len(compile) > 0 {
		if c.key, err = compiledKeyOf(j.Tenant, image, c.program); err != nil {
			return nil, err
		}
	}
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

// checkerLimits are those of each check. What the script reports has room, whatever the program prints: an interactor's report has
// none of its own limit's.
func checkerLimits(spec job.Spec, runtime runtimes.Runtime, checker job.Checker) job.Limits {
	disk := spec.Limits.DiskMB
	l := limitsOf(spec, runtime)
	if disk == 0 {
		l.DiskMB = max(l.DiskMB, l.MemoryMB)
		l.FileMB = l.DiskMB
	}
	if checker.Interactive {
		return l
	}
	l.OutputKB = reportKB
	if checker.Passes > 1 {
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
	l := checkerLimits(program.Spec(), runtime, *spec.Checker)
	mb := l.SandboxMB() + sandbox.CostMB(l) + job.MaxCheckerBytes>>20
	if compiles(runtime, program.Commands) {
		const archives = 3 // two while a buffer of one grows, and what is kept
		mb += archives * maxCompiled >> 20
	}
	if spec.Passes() > 1 {
		const reports = 4 // the one that a pass goes on from, and that pass's own, which is copied as it grows and at its end
		mb += reports * passReportKB >> 10
	}
	if spec.Checker.Interactive {
		mb += 2 * job.MaxDialogBytes >> 20 // what is on its way to a sandbox that takes it slowly
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
	l := checkerLimits(program.Spec(), runtime, *spec.Checker)
	each := wallTime(l) + testOverhead
	if spec.Checker.Interactive {
		each += lastWord
	}
	sandbox := wallTime(l) + compileTime(l) + sandboxOverhead
	most := time.Duration(len(spec.Tests)*spec.Passes()+maxRechecks)*each + overrun + (1+maxLost)*sandbox
	if compiles(runtime, program.Commands) {
		most += 2 * sandbox // one makes what is to be kept, and one can't unpack that
	}
	return most
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

// check judges one output; waited says that it may do better when it is made once more. An error is Glovebox's, or that of a reader.
func (c *checkerProgram) check(ctx context.Context, t toCheck) (r grading.Ruling, waited bool, err error) {
	broken, err := c.give(ctx, t, nil)
	switch {
	case err != nil:
		return r, false, err
	case broken != nil:
		return *broken, false, nil
	}
	o, ended, err := c.outcome(ctx)
	switch {
	case err != nil:
		return r, false, err
	case ended != nil: // it may not have begun, or the machine may have stood still
		return *ended, o.end.Silent || o.end.Status == "", nil
	case o.Status == job.TimedOut && closely(o.TestOutcome, c.limits):
		return c.rule(o, t.more), true, nil
	}
	return c.doubted(c.rule(o, t.more)), false, nil
}

// give hands a check to a sandbox, or returns why there is none that could make it.
func (c *checkerProgram) give(ctx context.Context, t toCheck, d *dialog) (*grading.Ruling, error) {
	feedback, interactive := grading.MaxFeedback, 0
	if d != nil {
		feedback, interactive = grading.MaxDialogFeedback, 1
	}
	header := fmt.Sprintf("%d %d %d %d %d %d %d %d\n", t.input.size, t.answer.size, len(t.state), t.more, job.MaxPassInput, job.MaxPassState, feedback, interactive)
	stdin := io.MultiReader(strings.NewReader(header), exactly(t.input), exactly(t.answer), bytes.NewReader(t.state), t.output)
	test := sandbox.Test{Args: t.args, Stdin: sandbox.File{
		Name: "what the checker reads", Size: -1, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(stdin), nil },
	}}
	if d != nil {
		test.Input = d.toInteractor
	}
	for c.broken.Verdict == "" {
		if c.sandbox == nil {
			c.sandbox = c.begin()
		}
		s := c.sandbox
		select {
		case s.checks <- check{test, d}:
			return nil, nil //nolint:nilnil // there is nothing to say
		case <-ctx.Done():
			c.close()
			return nil, context.Cause(ctx)
		case <-s.over:
			c.close()
			if s.err != nil {
				return nil, s.err
			}
			c.ended(s.end, false)
		}
	}
	return &c.broken, nil
}

// doubted returns the ruling, and has the checker compiled anew where it has failed.
func (c *checkerProgram) doubted(r grading.Ruling) grading.Ruling {
	if r.Verdict == job.JudgeError {
		c.worker.compiled.doubt(c.key)
	}
	return r
}

// outcome waits for the end of the check that was given. A ruling says that the sandbox has ended with it.
func (c *checkerProgram) outcome(ctx context.Context) (checkOutcome, *grading.Ruling, error) {
	o, err := c.sandbox.await(ctx)
	if err != nil {
		c.close()
		return checkOutcome{}, nil, err
	}
	if o.end != nil {
		c.close()
		r := c.ended(*o.end, true)
		return o, &r, nil
	}
	return o, nil, nil
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
		r = fault("the checker was not done in %d ms of wall time or %d ms of CPU time (checker.program.limits)", c.limits.WallMS, c.limits.CPUMS)
		r.Overdue = true
	case job.OutputLimitExceeded:
		r = fault("the checker printed more than %d KiB (checker.program.limits.output_kb)", c.limits.OutputKB)
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

// ended notes that the sandbox has ended, and returns what that makes of a check that had begun. One that had not may be made in
// another, unless the checker is broken then.
func (c *checkerProgram) ended(o sandbox.Outcome, began bool) (r grading.Ruling) {
	switch {
	case overdueCompile(o) && !began && !c.slow:
		c.slow = true // it is compiled once more: the machine may have been busy
	case o.Status == job.CompileFailed:
		const most = 1000 // of what the compiler said, which has seen nothing of the tests
		said := ""
		if o.Compile != nil {
			said = o.Compile.Output[:min(most, len(o.Compile.Output))]
		}
		c.broken = fault("the checker could not be compiled: %s", strings.ToValidUTF8(said, ""))
		return c.broken
	case began && o.Status == job.OutOfMemory:
		r = fault("the checker ran out of memory; it has %d MiB (checker.program.limits.memory_mb)", c.program.Limits.MemoryMB)
	case began:
		r = fault("the checker ended its sandbox")
		r.Overdue = o.Status == job.TimedOut || o.Status == "" // the program may have waited for it
	}
	if c.lost++; c.lost > maxLost {
		c.broken = fault("the checker has ended %d sandboxes", c.lost)
	}
	return r
}

// overdueCompile reports whether the agent has ended a compile step that was not done in its time.
func overdueCompile(o sandbox.Outcome) bool {
	return o.Status == job.CompileFailed && o.ExitCode == job.TimedOutExitCode && !o.Silent
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
