package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// grader gives a program its tests and judges what it does in them. It is the program's Sink, too.
// Answers are read here, and go nowhere else.
type grader struct {
	worker    *Worker
	job       record.Record
	tests     []job.Test
	groups    []job.Group
	passes    int // of each, at most
	limits    job.Limits
	judgement *grading.Judgement
	checker   job.Checker
	program   *checkerProgram // judges in the place of checker; nil: none

	judged  []bool
	results []job.TestResult // all but verdict and score
	usage   job.Usage        // of all runs: times added up, the highest peak
	shown   int              // how many bytes of outputs the result may still show
	// fault is why the first test that could not be judged could not.
	fault *job.Error

	current int  // the test that was given last
	running bool // it has not ended
	rerun   bool // it is to be given once more
	// next is what the current test's next pass begins with; nil: it is in its first.
	next  *grading.NextPass
	pass  int // how many passes of it have ended
	given int // how many were given
	ended int // how many of these ended, with their sandbox or in it
	// concealed: a hidden test was given. What the program prints from then on may be that one's input.
	concealed bool
	rechecks  int           // how many checks were made once more
	lastLost  job.Verdict   // of the last test that ended its sandbox; "": none did
	spent     time.Duration // by all tests and wipes
	began     time.Time     // of what is still to be added to spent; zero: nothing is
	fetched   time.Duration // how much of that an input was waited for
	input     io.Closer     // of the current test; nil: none was opened
	output    *capture
	stderr    []byte  // the beginning
	dialog    *dialog // of the current test, until it is judged; nil: the checker is not interactive
}

// wanted is the next test to be run, or -1.
func (g *grader) wanted() int {
	if g.rerun || g.next != nil {
		return g.current
	}
	for i, judged := range g.judged {
		if !judged && g.judgement.Wanted(i) {
			return i
		}
	}
	return -1
}

// Next is [sandbox.Tests.Next]. It opens the input itself: a test whose input is gone can't be judged, and
// costs those before it nothing.
func (g *grader) Next(ctx context.Context) (sandbox.Test, bool, error) {
	g.spend()
	for {
		i := g.wanted()
		if i < 0 || g.overdue() {
			return sandbox.Test{}, false, nil
		}
		g.current, g.rerun = i, false
		began := time.Now()
		r, ruling, err := g.ready(ctx)
		g.fetched += time.Since(began)
		if ruling != nil {
			g.unjudged(g.tests[i], ": "+ruling.Fault)
			g.set(i, job.JudgeError)
			continue
		}
		var gone *inputError
		if errors.As(err, &gone) {
			g.fail(g.unread(gone))
			g.set(i, job.JudgeError)
			continue
		}
		if err != nil {
			return sandbox.Test{}, false, fmt.Errorf("open %s: %w", g.tests[i].Input().Name, err)
		}
		t, err := g.give(r)
		return t, true, err
	}
}

// ready opens what the program reads in the current test, or begins the dialog in which it will be told something. A ruling says that
// nobody could talk to it.
func (g *grader) ready(ctx context.Context) (io.ReadCloser, *grading.Ruling, error) {
	if !g.checker.Interactive {
		r, err := g.openInput(ctx)
		return r, nil, err
	}
	if d := g.dialog; d != nil { // of a run that doesn't count
		g.dialog = nil
		if err := g.program.abandon(ctx, d); err != nil {
			return nil, nil, err
		}
	}
	t := g.tests[g.current]
	input, err := g.readInput(ctx)
	if err != nil {
		return nil, nil, err
	}
	answer, err := g.worker.openTestFile(ctx, g.job.Tenant, t.Expected())
	if err != nil {
		return nil, nil, errors.Join(err, input.Close())
	}
	var ruling *grading.Ruling
	pass := toCheck{input: content{input, input.Size()}, answer: content{answer, answer.Size()}, state: g.state(), more: g.passes - g.pass - 1, args: t.CheckerArgs}
	g.dialog, ruling, err = g.program.talk(ctx, pass, input, answer)
	return io.NopCloser(strings.NewReader("")), ruling, err
}

// give returns the current test, with what its program reads.
func (g *grader) give(in io.ReadCloser) (sandbox.Test, error) {
	t := g.tests[g.current]
	g.running = true
	g.given++
	g.concealed = g.concealed || t.Hidden
	g.stderr = g.stderr[:0]
	err := g.output.close()
	g.output = &capture{dir: g.worker.SpoolDir}
	test := sandbox.Test{Args: t.Args, Stdin: sandbox.File{Name: t.Input().Name, Size: -1, Open: func(context.Context) (io.ReadCloser, error) {
		return timedReader{in, &g.fetched}, nil
	}}}
	if g.dialog != nil {
		test.Input = g.dialog.toProgram
	}
	return test, err
}

// openInput opens what the current test's pass reads, which is closed with the next one at the latest.
func (g *grader) openInput(ctx context.Context) (sizedReader, error) {
	if g.input != nil {
		_ = g.input.Close() // the sandbox has closed it, or has not got as far
		g.input = nil
	}
	r, err := g.readInput(ctx)
	if err == nil {
		g.input = r
	}
	return r, err
}

// readInput opens what the current test's pass reads.
func (g *grader) readInput(ctx context.Context) (sizedReader, error) {
	if g.next != nil {
		return inlineReader{bytes.NewReader(g.next.Input)}, nil
	}
	return g.worker.openTestFile(ctx, g.job.Tenant, g.tests[g.current].Input())
}

// state is what the checker kept of the pass before the current one.
func (g *grader) state() []byte {
	if g.next == nil {
		return nil
	}
	return g.next.State
}

// Ended is [sandbox.Tests.Ended].
func (g *grader) Ended(ctx context.Context, o sandbox.TestOutcome) error {
	again := closely(o, g.limits)
	g.end(&o)
	defer func() { g.began = time.Now() }() // the wipe begins
	r := &g.results[g.current]
	if r.Reruns == 0 && again {
		r.Reruns, g.rerun = 1, true
		return nil
	}
	return g.judge(ctx, o)
}

// lost is Ended for a test that the sandbox did not survive. One that had not begun is run once more, as it is not what ended the sandbox; and so is one,
// with again, whose end was never heard of: the machine may have stood still.
func (g *grader) lost(ctx context.Context, o sandbox.TestOutcome, again bool) error {
	if o.Status == "" {
		g.running = false
		g.spend()
		return nil
	}
	r := &g.results[g.current]
	again = again && r.Reruns == 0
	if again {
		g.began = time.Time{} // and its silence counts for nothing
	}
	g.end(&o)
	g.lastLost = verdictOf(o.Status)
	if again {
		r.Reruns, g.rerun = 1, true
		return nil
	}
	return g.judge(ctx, o)
}

// end counts what the current test used. A program that has had more CPU time than it has may have
// exited by itself (see cpuHeadroom).
func (g *grader) end(o *sandbox.TestOutcome) {
	g.running = false
	g.ended++
	g.spend()
	if o.Usage.CPUMS > g.limits.CPUMS && o.Status != job.OutOfMemory {
		o.Status, o.ExitCode, o.Signal = job.TimedOut, job.TimedOutExitCode, ""
	}
	o.Usage = g.counted(o.Usage)
	g.usage = together(g.usage, o.Usage)
}

// together is what was used one after the other.
func together(a, b job.Usage) job.Usage {
	return job.Usage{WallMS: a.WallMS + b.WallMS, CPUMS: a.CPUMS + b.CPUMS, MemoryPeakBytes: max(a.MemoryPeakBytes, b.MemoryPeakBytes)}
}

// judge decides on the current test's pass: time and memory come first, then how the program exited, then how
// much it printed, and only then what. An error is Glovebox's.
func (g *grader) judge(ctx context.Context, o sandbox.TestOutcome) error {
	i := g.current
	t, r := g.tests[i], &g.results[i]
	g.countPass(r, o.Usage)
	ended := verdictOf(o.Status)
	ruling := ruling{Ruling: grading.Ruling{Verdict: ended}}
	said := g.dialog
	if ended == "" || said != nil {
		var err error
		if ruling, err = g.rule(ctx, t, ended); err != nil {
			return fmt.Errorf("check the output: %w", err)
		}
	}
	if ruling.Next != nil {
		g.next = ruling.Next
		return nil
	}
	score := ruling.Score
	if ruling.Multiplier != nil {
		part := *ruling.Multiplier * g.judgement.Most(i)
		score = &part
	}
	g.setScore(i, ruling.Verdict, score)
	if g.concealed {
		return nil
	}
	if ended == "" || ruling.Verdict == ended { // else an interactor's word has ended it
		r.ExitCode, r.Signal = &o.ExitCode, o.Signal
	}
	stderr := g.stderr
	if len(stderr) == job.ShownOutput { // it was cut, maybe in a character
		stderr = job.WholeCharacters(stderr)
	}
	r.Stdout, r.Stderr = g.show(g.output.text()), g.show(string(stderr))
	r.Interaction = g.show(said.transcript())
	if d := ruling.difference; d != nil {
		r.Difference = &job.Difference{Line: d.Line, Column: d.Column, Want: g.show(d.Want), Got: g.show(d.Got)}
	}
	if team := g.show(ruling.Team); team != "" {
		r.Feedback = team
	}
	r.JudgeMessage = g.show(ruling.Judge)
	return nil
}

// countPass notes what a pass of a test has used. Of several, the most counts: limits hold for each.
func (g *grader) countPass(r *job.TestResult, used job.Usage) {
	if r.Usage == nil {
		r.Usage = &used
	}
	r.Usage.WallMS = max(r.Usage.WallMS, used.WallMS)
	r.Usage.CPUMS = max(r.Usage.CPUMS, used.CPUMS)
	r.Usage.MemoryPeakBytes = max(r.Usage.MemoryPeakBytes, used.MemoryPeakBytes)
	g.pass++
	if g.passes > 1 {
		r.Passes = g.pass
	}
}

// unjudged notes that a test could not be judged. why has nothing of the test's data.
func (g *grader) unjudged(t job.Test, why string) {
	g.fail(&job.Error{Code: job.CodeJudgeError, Message: fmt.Sprintf("the program could not be judged, which is not its fault: test %q could not be checked%s", t.Name, why)})
}

// set notes what a test came to.
func (g *grader) set(i int, verdict job.Verdict) { g.setScore(i, verdict, nil) }

func (g *grader) setScore(i int, verdict job.Verdict, score *float64) {
	g.judgement.Set(i, verdict, score)
	g.judged[i] = true
	g.next, g.pass = nil, 0
	if verdict != job.Accepted {
		g.results[i].Feedback = g.tests[i].Hint
	}
}

// fail notes why a test could not be judged.
func (g *grader) fail(why *job.Error) {
	if g.fault == nil {
		g.fault = why
	}
}

// unread is why the current test's input or answer could not be read. The digest of a hidden one is not
// told: who guesses the content could see by it whether that is right.
func (g *grader) unread(e *inputError) *job.Error {
	if t := g.tests[g.current]; t.Hidden {
		return &job.Error{Code: e.reason.Code, Message: fmt.Sprintf("the upload of test %q, its input or its answer, can't be used: it was purged, has expired or was changed before the test was judged", t.Name)}
	}
	return e.reason
}

// show returns as much of an output as the result may have, as UTF-8.
func (g *grader) show(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	most := min(job.ShownOutput, g.shown)
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	g.shown -= len(s)
	return s
}

// Stdout keeps what the program prints. The sandbox has bounded it.
func (g *grader) Stdout(p []byte) error {
	if g.dialog != nil {
		g.dialog.programSays(p)
	}
	return g.output.append(p)
}

// Stderr keeps the beginning.
func (g *grader) Stderr(p []byte) error {
	g.stderr = append(g.stderr, p[:min(len(p), job.ShownOutput-len(g.stderr))]...)
	return nil
}

// Artifact is never called: programs with tests have none.
func (g *grader) Artifact(context.Context, string, int64, io.Reader) error {
	return errors.New("a graded program has no artifacts")
}

func (g *grader) close() {
	g.program.close()
	g.dialog.close()
	if g.input != nil {
		_ = g.input.Close()
	}
	_ = g.output.close() // the file has no name: nothing is left of it
}

// stoppable is a reader that fails once ctx ends.
type stoppable struct {
	ctx context.Context //nolint:containedctx // of one check
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}
