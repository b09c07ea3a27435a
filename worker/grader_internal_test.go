package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

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
