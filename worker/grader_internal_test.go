package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// scripted ends sandboxes as a test wants them to end, which no program does on command.
type scripted struct {
	Sandboxes
	// script has a letter for each test: "." ends, "x" ends its sandbox, "w" ends it before the test
	// begins, "a" ends and its sandbox is lost after it, "s" falls silent, and "f" falls silent after it.
	script string
	sick   bool // no probe can be made
	unfit  int  // the sandbox, from 1, whose compile step fails
	gone   int  // the sandbox for which a file of the program is gone
	made   int
	judges atomic.Int32 // how many sandboxes a checker's program has had
}

// Image says that there is any.
func (s *scripted) Image(context.Context, string) (string, error) { return "sha256:", nil }

func (*scripted) Ping(context.Context) error { return nil }

func (s *scripted) Run(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what a sandbox gives its tests ends with it
	if p.JobID == ProbeID {
		return sandbox.Outcome{Status: job.TimedOut, Silent: s.sick}, nil
	}
	if len(p.Command) > 0 {
		return s.accept(ctx, p, sink)
	}
	s.made++
	if s.made == s.unfit {
		return sandbox.Outcome{Status: job.CompileFailed, ExitCode: 1, Compile: &job.Compile{ExitCode: 1}}, nil
	}
	if s.made == s.gone {
		return sandbox.Outcome{}, fmt.Errorf("send the program: %w", goneError(job.File{Name: "data", Upload: "u"}))
	}
	for {
		test, ok, err := p.Tests.Next(ctx)
		if err != nil || !ok {
			return sandbox.Outcome{Status: job.Succeeded, Compile: &job.Compile{}}, err
		}
		step := s.script[0]
		s.script = s.script[1:]
		switch step {
		case 'x':
			return sandbox.Outcome{Status: job.OutOfMemory, ExitCode: 137, Signal: "SIGKILL", Lost: true, Compile: &job.Compile{}}, nil
		case 'w':
			return sandbox.Outcome{Lost: true, Compile: &job.Compile{}}, nil
		case 's':
			return sandbox.Outcome{Status: job.TimedOut, ExitCode: job.TimedOutExitCode, Lost: true, Silent: true, Compile: &job.Compile{}}, nil
		}
		if err := sink.Stdout([]byte(test.Args[0])); err != nil {
			return sandbox.Outcome{}, err
		}
		if err := p.Tests.Ended(ctx, sandbox.TestOutcome{Status: job.Succeeded}); err != nil {
			return sandbox.Outcome{}, err
		}
		if step == 'a' || step == 'f' {
			return sandbox.Outcome{Status: job.Succeeded, Lost: true, Silent: step == 'f', Compile: &job.Compile{}}, nil
		}
	}
}

// accept is a sandbox of a checker's program, which accepts all that it is to judge, and asks for as many passes as there are.
func (s *scripted) accept(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	s.judges.Add(1)
	for {
		test, _, err := p.Tests.Next(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		stdin, err := test.Stdin.Open(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		var input, answer, state, more int
		if _, err := fmt.Fscan(stdin, &input, &answer, &state, &more); err != nil {
			return sandbox.Outcome{}, err
		}
		report := "exit 42\n"
		if more > 0 {
			report += "nextpass.in 1\n1state 1\n2"
		}
		if err := errors.Join(sink.Stdout([]byte(report)), p.Tests.Ended(ctx, sandbox.TestOutcome{Status: job.Succeeded})); err != nil {
			return sandbox.Outcome{}, err
		}
	}
}

// TestGradeLostSandboxWithChecker: a submission that ends its own sandbox doesn't end its checker's.
func TestGradeLostSandboxWithChecker(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		made         int
		want         string
	}{
		{"in a test", "..x.", 2, "accepted accepted out_of_memory accepted"},
		{"before a test", ".w...", 2, "accepted accepted accepted accepted"},
		{"after a test", ".a..", 2, "accepted accepted accepted accepted"},
		{"in a second pass", ".. .x .. ..", 2, "accepted out_of_memory accepted accepted"},
		{"before a second pass", ".. .w. .. ..", 2, "accepted accepted accepted accepted"},
		{"after a first pass", ".. a. .. ..", 2, "accepted accepted accepted accepted"},
		{"in a first pass", ".. x .. ..", 2, "accepted out_of_memory accepted accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{script: strings.ReplaceAll(c.script, " ", "")}
			w := &Worker{Config: Config{Sandboxes: s, Runtimes: set, Log: slog.New(slog.DiscardHandler), SpoolDir: t.TempDir(), ImageTimeout: time.Minute}}
			spec := job.Spec{
				Groups:  []job.Group{{OnReject: "continue"}},
				Checker: &job.Checker{Kind: job.CheckKattis, Program: &job.CheckerProgram{Runtime: "bash", Source: "exit 42"}},
			}
			for i := range 4 {
				spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), Args: []string{"a"}})
			}
			if strings.Contains(c.script, " ") {
				spec.Checker.Passes = 2
			}
			g, o, err := w.grade(t.Context(), record.Record{Tenant: "default"}, spec, sandbox.Program{Limits: job.Limits{WallMS: 1000, CPUMS: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			r := job.Result{Status: o.Status}
			g.fill(&r)
			var got []string
			for _, test := range r.Tests {
				got = append(got, string(test.Verdict))
			}
			if strings.Join(got, " ") != c.want || s.made != c.made || s.judges.Load() != 1 || s.script != "" {
				t.Errorf("got %s of %d sandboxes and %d of the checker's; want %s of %d and 1; %+v", got, s.made, s.judges.Load(), c.want, c.made, r.Error)
			}
		})
	}
}

// TestGradeLostSandboxes: a program that ends its sandboxes comes to verdicts, after so many of them.
func TestGradeLostSandboxes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		unfit, made  int
		want         string
	}{
		{"none", "......", 0, 1, "accepted accepted accepted accepted accepted accepted"},
		{"one test", "..x...", 0, 2, "accepted accepted out_of_memory accepted accepted accepted"},
		{"before a test", "..w....", 0, 2, "accepted accepted accepted accepted accepted accepted"},
		{"after a test", "..a...", 0, 2, "accepted accepted accepted accepted accepted accepted"},
		{"after the last", ".....a", 0, 1, "accepted accepted accepted accepted accepted accepted"},
		{"after each", "aaaaa", 0, 5, "accepted accepted accepted accepted accepted run_time_error"},
		{"all", "xxxxx", 0, 5, "out_of_memory out_of_memory out_of_memory out_of_memory out_of_memory out_of_memory"},
		{"always before a test", ".wwwww", 0, 5, "accepted run_time_error run_time_error run_time_error run_time_error run_time_error"},
		{"silent once", "..s....", 0, 2, "accepted accepted accepted accepted accepted accepted"},
		{"silent twice", "..ss...", 0, 3, "accepted accepted timed_out accepted accepted accepted"},
		{"always silent", "sssss", 0, 5, "timed_out timed_out timed_out timed_out timed_out timed_out"},
		{"silent after a test", "..f...", 0, 2, "accepted accepted accepted accepted accepted accepted"},
		{"does not compile once more", ".x", 2, 2, "accepted out_of_memory out_of_memory out_of_memory out_of_memory out_of_memory"},
		{"does not compile", "", 1, 1, "skipped skipped skipped skipped skipped skipped"},
		{"does not compile, after one in which nothing was run", "w", 2, 2, "skipped skipped skipped skipped skipped skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{script: c.script, unfit: c.unfit}
			w := &Worker{Config: Config{Sandboxes: s, Objects: wellObjects{}, Images: []string{"image"}, Log: slog.New(slog.DiscardHandler), SpoolDir: t.TempDir()}}
			spec := job.Spec{Groups: []job.Group{{OnReject: "continue"}}}
			for i := range 6 {
				spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), Args: []string{"a"}, Answer: "a"})
			}
			g, o, err := w.grade(t.Context(), record.Record{}, spec, sandbox.Program{Compile: []string{"cc"}, Limits: job.Limits{WallMS: 1000, CPUMS: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			r := job.Result{Status: o.Status}
			g.fill(&r)
			var got []string
			for _, test := range r.Tests {
				got = append(got, string(test.Verdict))
				if notRun := test.Usage == nil && test.Verdict != job.SkippedTest; notRun != strings.Contains(test.Feedback, "was not run") {
					t.Errorf("test %s says %q, %+v", test.Name, test.Feedback, test.Usage)
				}
			}
			if strings.Join(got, " ") != c.want || s.made != c.made || s.script != "" {
				t.Errorf("got %s of %d sandboxes, %q left; want %s of %d", got, s.made, s.script, c.want, c.made)
			}
			if failed := strings.HasPrefix(c.want, "skipped"); failed != (o.Status == job.CompileFailed) || failed != (o.Compile.ExitCode != 0) {
				t.Errorf("got %s, %+v", o.Status, o.Compile)
			}
		})
	}
}

// TestGradeSilentSandbox: a sandbox that falls silent on a worker that can run none costs no test its verdict.
func TestGradeSilentSandbox(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"s", ".s", "f"} {
		w := pausedWorker(t, func() {})
		if err := w.resume(); err != nil {
			t.Fatal(err)
		}
		w.Sandboxes, w.SpoolDir = &scripted{script: script, sick: true}, t.TempDir()
		spec := job.Spec{Tests: []job.Test{{Name: "1", Args: []string{"a"}, Answer: "a"}, {Name: "2", Args: []string{"a"}, Answer: "a"}}}
		if g, _, err := w.grade(t.Context(), record.Record{Started: time.Now()}, spec, sandbox.Program{Limits: job.Limits{WallMS: 1000, CPUMS: 1000}}); err == nil || w.paused() == nil {
			t.Errorf("%q: got %+v, %v, paused by %v; want an error", script, g, err, w.paused())
		}
	}
}

// TestGradeFileGone: what was judged before a file of the program was deleted stays judged.
func TestGradeFileGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		gone   int
		want   string // "": nothing was judged, and the job fails
	}{
		{".x", 2, "accepted out_of_memory judge_error"},
		{"w", 2, ""},
		{"", 1, ""},
	} {
		w := &Worker{Config: Config{Sandboxes: &scripted{script: c.script, gone: c.gone}, Log: slog.New(slog.DiscardHandler), SpoolDir: t.TempDir()}}
		spec := job.Spec{Groups: []job.Group{{OnReject: "continue"}}}
		for i := range 3 {
			spec.Tests = append(spec.Tests, job.Test{Name: fmt.Sprint(i), Args: []string{"a"}, Answer: "a"})
		}
		g, o, err := w.grade(t.Context(), record.Record{}, spec, sandbox.Program{Limits: job.Limits{WallMS: 1000, CPUMS: 1000}})
		var input *inputError
		if c.want == "" {
			if !errors.As(err, &input) {
				t.Errorf("%q: got %v", c.script, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r := job.Result{Status: o.Status}
		g.fill(&r)
		var got []string
		for _, test := range r.Tests {
			got = append(got, string(test.Verdict))
		}
		if strings.Join(got, " ") != c.want || r.Status != job.Failed || r.Verdict != job.JudgeError || r.Score != nil || r.Error == nil || r.Error.Code != job.CodeInputGone {
			t.Errorf("%q: got %s, %s, %s, %+v", c.script, got, r.Status, r.Verdict, r.Error)
		}
	}
}

// TestJudgeEndsWithItsContext: a comparison does not outlive the job's cancellation, and is no verdict.
func TestJudgeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.CheckDefault, job.CheckExact, job.CheckLines, job.CheckUnorderedLines, job.CheckRegex, job.CheckJSON} {
		g := judging(t, job.Spec{Checker: &job.Checker{Kind: kind}, Tests: []job.Test{{Name: "1", Answer: "1"}}})
		ctx, cancel := context.WithCancelCause(t.Context())
		if _, _, err := g.Next(ctx); err != nil {
			t.Fatal(err)
		}
		if err := g.Stdout([]byte("1")); err != nil {
			t.Fatal(err)
		}
		cancel(errCanceled)
		if err := g.Ended(ctx, sandbox.TestOutcome{Status: job.Succeeded}); !errors.Is(err, errCanceled) || g.judged[0] {
			t.Errorf("%s: got %v, judged %t", kind, err, g.judged[0])
		}
	}
}

// judging returns a grader of the tests, which are given an output and an end each.
func judging(t *testing.T, spec job.Spec) *grader {
	t.Helper()
	w := &Worker{Config: Config{SpoolDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	g, err := newGrader(t.Context(), w, record.Record{Tenant: "default"}, spec, job.Limits{WallMS: 1000, CPUMS: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

// test runs the next test.
func (g *grader) test(ctx context.Context, stdout string, o sandbox.TestOutcome) error {
	if _, _, err := g.Next(ctx); err != nil {
		return err
	}
	return errors.Join(g.Stdout([]byte(stdout)), g.Stderr([]byte("stderr")), g.Ended(ctx, o))
}

// TestConcealed: once a hidden test has begun, no test shows what the program printed or how it exited,
// nor its exact usage.
func TestConcealed(t *testing.T) {
	t.Parallel()
	g := judging(t, job.Spec{Groups: []job.Group{{OnReject: "continue"}}, Tests: []job.Test{{Name: "1", Answer: "b"}, {Name: "2", Hidden: true}, {Name: "3", Answer: "b", Hint: "hint"}}})
	for range 3 {
		if err := g.test(t.Context(), "kept", sandbox.TestOutcome{Status: job.Succeeded, Usage: job.Usage{WallMS: 123, CPUMS: 117, MemoryPeakBytes: 3<<20 + 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if r := g.results[0]; r.Stdout != "kept" || r.Stderr != "stderr" || r.Difference == nil || r.ExitCode == nil || r.Usage.WallMS != 123 {
		t.Errorf("before the hidden test: got %+v", r)
	}
	for _, r := range g.results[1:] {
		if r.Stdout+r.Stderr+r.Signal != "" || r.Difference != nil || r.ExitCode != nil || *r.Usage != (job.Usage{WallMS: 120, CPUMS: 110, MemoryPeakBytes: 4 << 20}) {
			t.Errorf("test %s: got %+v, %+v", r.Name, r, r.Usage)
		}
	}
	if r := g.results[2]; r.Feedback != "hint" || r.Hidden {
		t.Errorf("the visible test after the hidden one: got %+v", r)
	}
	if want := (job.Usage{WallMS: 363, CPUMS: 337, MemoryPeakBytes: 4 << 20}); g.usage != want {
		t.Errorf("all used %+v, want %+v: what is shown, added up", g.usage, want)
	}
}

// TestMoreCPUTimeThanAllowed: a run that exits by itself beyond its CPU time has timed out, unless it does
// better when it is run once more.
func TestMoreCPUTimeThanAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      job.Status
		first, then int64 // CPU time, ms; then 0: it is not run once more
		want        job.Verdict
	}{
		{job.Succeeded, 1000, 0, job.Accepted},
		{job.Succeeded, 1001, 1001, job.TestTimedOut},
		{job.Succeeded, 1999, 1000, job.Accepted},
		{job.Failed, 1001, 1500, job.TestTimedOut},
		{job.Failed, 1001, 900, job.RunTimeError},
		{job.OutputLimitExceeded, 1001, 1001, job.TestTimedOut},
		{job.OutOfMemory, 1001, 0, job.TestOutOfMemory},
		{job.TimedOut, 2000, 0, job.TestTimedOut}, // the agent ended it
		{job.TimedOut, 950, 0, job.TestTimedOut},  // the wall clock did
		{job.TimedOut, 10, 10, job.TestTimedOut},
	} {
		g := judging(t, job.Spec{Tests: []job.Test{{Name: "1", Answer: "a"}}})
		runs := []int64{c.first}
		if c.then > 0 {
			runs = append(runs, c.then)
		}
		for _, cpu := range runs {
			if g.judged[0] {
				t.Errorf("%s after %d ms: was not run once more", c.status, c.first)
				break
			}
			if err := g.test(t.Context(), "a", sandbox.TestOutcome{Status: c.status, Usage: job.Usage{CPUMS: cpu}}); err != nil {
				t.Fatal(err)
			}
		}
		if whole := g.judgement.Whole(); !g.judged[0] || whole.Verdict != c.want || g.results[0].Reruns != len(runs)-1 {
			t.Errorf("%s after %d ms: got %s and %d reruns, want %s", c.status, c.first, whole.Verdict, g.results[0].Reruns, c.want)
		}
	}
}

// TestTestsTime: tests whose wipes eat up the time of all are not run to the end of the job's deadline.
func TestTestsTime(t *testing.T) {
	t.Parallel()
	g := judging(t, job.Spec{Groups: []job.Group{{OnReject: "continue"}}, Tests: []job.Test{{Name: "1"}, {Name: "2"}, {Name: "3"}}})
	if err := g.test(t.Context(), "", sandbox.TestOutcome{Status: job.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if g.spent <= 0 || g.spent > time.Minute {
		t.Errorf("spent %s", g.spent)
	}
	g.began = g.began.Add(-testsTime(3, 1, g.limits)) // a wipe that takes so long
	if _, ok, err := g.Next(t.Context()); ok || err != nil {
		t.Fatalf("got one more test, %v", err)
	}
	whole := g.judgement.Whole()
	if got := fmt.Sprintf("%s %s %s", whole.Tests[0].Verdict, whole.Tests[1].Verdict, whole.Tests[2].Verdict); got != "accepted timed_out timed_out" || g.wanted() >= 0 {
		t.Errorf("got %s", got)
	}
	for _, n := range []struct{ tests, passes int }{{job.MaxTests, 1}, {job.MaxTests, 2}, {job.MaxPassesOfAll / job.MaxPasses, job.MaxPasses}} {
		if most := testsTime(n.tests, n.passes, job.Limits{WallMS: int64(job.MaxTestsWall / (n.tests * n.passes))}); most > 110*time.Minute {
			t.Errorf("%d tests of %d passes may take %s, and a sandbox lives for two hours", n.tests, n.passes, most)
		}
	}
}

// changed is a bucket with an object that is not what its name says from some byte on.
type changed struct{ Objects }

func (changed) Get(context.Context, string) (io.ReadCloser, artifacts.Object, error) {
	return io.NopCloser(strings.NewReader("b" + strings.Repeat("x", 1<<20))), artifacts.Object{Size: 1<<20 + 1}, nil
}

// TestChangedAnswer: no output is rejected for an answer that is not the submitted one.
func TestChangedAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{job.CheckDefault, job.CheckExact, job.CheckLines} {
		g := judging(t, job.Spec{Checker: &job.Checker{Kind: kind}, Tests: []job.Test{{Name: "1", AnswerUpload: strings.Repeat("0", 64)}}})
		g.worker.Objects = changed{}
		err := g.test(t.Context(), "a", sandbox.TestOutcome{Status: job.Succeeded})
		if whole := g.judgement.Whole(); err != nil || whole.Tests[0].Verdict != job.JudgeError || g.fault == nil || g.fault.Code != job.CodeInputChanged {
			t.Errorf("%s: got %v, %+v, %+v", kind, err, whole.Tests, g.fault)
		}
	}
}
