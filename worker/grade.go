package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// grade runs the program on the job's tests, and judges it. One sandbox does for all of them, unless the
// program ends it: then the tests that are left get another one, as often as [maxLost].
func (w *Worker) grade(ctx context.Context, j record.Record, spec job.Spec, program sandbox.Program) (*grader, sandbox.Outcome, error) {
	g, err := newGrader(ctx, w, j, spec, program.Limits)
	if err != nil {
		return nil, sandbox.Outcome{}, err
	}
	defer g.close()
	program.Tests, program.Interactive, program.NoInternet = g, g.checker.Interactive, g.passes > 1
	program.ForkTests = len(spec.Tests) >= minForked && !spec.Fresh && spec.Commands == nil
	program.Limits.CPUMS += cpuHeadroom(program.Limits)
	var last sandbox.Outcome // of the last sandbox in which the program could be run
	for lost := 0; ; {
		given, before := g.given, g.usage
		g.began = time.Time{} // a sandbox's start is no test's time
		o, err := w.runProgram(ctx, j.Started, program, g)
		if err == nil && o.Lost {
			lost++
		}
		var input *inputError
		switch {
		case errors.As(err, &input) && lost > 0 && g.ended > 0: // what was judged in the sandboxes before stays so
			g.fail(input.reason)
			g.giveUp(job.JudgeError, "its files could not be read once more")
			o, err = last, nil
		case err != nil:
		case o.Lost && g.running:
			err = g.lost(ctx, o.Test(), o.Silent && lost < maxLost)
		case o.Status != job.CompileFailed && g.given == given && g.wanted() >= 0: // it came to no test
			o.Status, o.Compile = job.CompileFailed, &job.Compile{ExitCode: o.ExitCode, Output: g.unfit(program)}
		}
		if err != nil { // canceled, say: what the sandboxes before used counts, too
			o.Usage = together(before, o.Usage)
			return nil, o, err
		}
		switch {
		case o.Status == job.CompileFailed && g.ended == 0:
			return g, o, nil
		case o.Status == job.CompileFailed:
			g.giveUp(g.lastLost, "it ended its sandbox, and could not be made ready in another")
			o = last
		case lost == maxLost:
			g.giveUp(g.lastLost, fmt.Sprintf("it ended %d sandboxes", lost))
		}
		if g.wanted() < 0 {
			o.Usage, o.Status, o.ExitCode, o.Signal = g.usage, job.Succeeded, 0, ""
			o.Limit, o.StdoutTruncated, o.StderrTruncated = "", false, false
			return g, o, nil
		}
		last = o
		w.Log.Info("a graded program ended its sandbox, and goes on in another", "job_id", j.ID, "epoch", j.Epoch)
	}
}

// minForked is how many tests a job has whose command is started once for all: two starts cost about as much as one and two forks.
const minForked = 3

// unfit says why there was no first test: no sandbox could have the program, or its compile step or its
// files ended one.
func (g *grader) unfit(p sandbox.Program) string {
	switch {
	case len(g.stderr) > 0:
		return string(g.stderr)
	case len(p.Compile) > 0:
		return "Compilation ran out of memory\n"
	}
	return "glovebox: the program's files do not fit into its memory (limits.memory_mb)\n"
}

// fill adds to the result what the program was judged to be.
func (g *grader) fill(r *job.Result) {
	whole := g.judgement.Whole()
	r.Verdict, r.Score, r.MaxScore, r.Tests, r.Groups = whole.Verdict, &whole.Score, &whole.MaxScore, g.results, whole.Groups
	for i, scored := range whole.Tests {
		t := &r.Tests[i]
		t.Verdict, t.Score, t.MaxScore = scored.Verdict, scored.Score, scored.MaxScore
	}
	switch {
	case r.Status == job.CompileFailed: // no test was run, whatever a group's rules make of that
		zero := 0.0
		r.Verdict, r.Score = job.VerdictCompileFailed, &zero
		for i := range r.Groups {
			r.Groups[i].Verdict, r.Groups[i].Score = job.SkippedTest, 0
		}
		return
	case whole.Verdict == job.JudgeError:
		r.Status, r.Score, r.MaxScore = job.Failed, nil, nil
		r.Error = g.fault
	}
	r.ExitCode, r.Signal = nil, "" // each test has its own
}

// verdictOf is the verdict that a test's end alone leads to; "" if the checker has the word.
func verdictOf(status job.Status) job.Verdict {
	switch status { //nolint:exhaustive // others don't come out of a sandbox
	case job.TimedOut:
		return job.TestTimedOut
	case job.Failed:
		return job.RunTimeError
	case job.OutOfMemory:
		return job.TestOutOfMemory
	case job.OutputLimitExceeded:
		return job.OutputLimit
	}
	return ""
}

var _ sandbox.Tests = (*grader)(nil)

// checkerOf returns the job's checker, or the default one.
func checkerOf(spec job.Spec) job.Checker {
	if spec.Checker == nil {
		return job.Checker{}
	}
	return *spec.Checker
}

// newGrader judges a job's program, of which nothing was run yet.
func newGrader(ctx context.Context, w *Worker, j record.Record, spec job.Spec, limits job.Limits) (*grader, error) {
	judgement, err := grading.NewJudgement(spec.Tests, spec.Groups)
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	g := &grader{
		worker: w, job: j, tests: spec.Tests, groups: spec.Groups, passes: spec.Passes(), limits: limits, judgement: judgement, checker: checkerOf(spec),
		judged: make([]bool, len(spec.Tests)), results: make([]job.TestResult, len(spec.Tests)), shown: job.ShownOutputs,
	}
	for i, t := range spec.Tests {
		g.results[i] = job.TestResult{Name: t.Name, Group: t.Group, Hidden: t.Hidden}
	}
	g.output = &capture{dir: w.SpoolDir}
	if spec.CheckerProgram() != nil {
		if g.program, err = w.newCheckerProgram(ctx, j, spec, limits); err != nil {
			return nil, fmt.Errorf("grade: %w", err)
		}
	}
	return g, nil
}
