package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
