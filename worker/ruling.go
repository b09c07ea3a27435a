package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

// ruling is what a checker has decided on an output, and where that is first wrong.
type ruling struct {
	grading.Ruling
	difference *job.Difference
}

// rule has the checker decide on what the program printed, or said; ended is the verdict that its end alone leads to. An error is
// Glovebox's.
func (g *grader) rule(ctx context.Context, t job.Test, ended job.Verdict) (ruling, error) {
	var r ruling
	var err error
	if d := g.dialog; d != nil {
		g.dialog = nil
		r.Ruling, err = g.program.hear(ctx, d, ended)
	} else {
		r, err = g.check(ctx, t)
	}
	if g.program != nil && err == nil {
		r.Ruling = r.Held(g.takes(t), g.judgement.Most(g.current))
	}
	var answer *grading.AnswerError
	var gone *inputError
	switch {
	case errors.As(err, &answer):
		r = ruling{Ruling: grading.Ruling{Verdict: job.JudgeError, Team: answer.Error()}}
		if t.Hint != "" {
			r.Team = ""
		}
		g.unjudged(t, "")
	case errors.As(err, &gone):
		r = ruling{Ruling: grading.Ruling{Verdict: job.JudgeError}}
		g.fail(g.unread(gone))
	case err != nil:
		return ruling{}, err
	case r.Verdict == job.JudgeError:
		g.unjudged(t, ": "+r.Fault)
	}
	return r, nil
}

// takes is which scores of a checker's program the test's group takes.
func (g *grader) takes(t job.Test) string {
	for _, group := range g.groups {
		if group.Name == t.Group {
			return group.CheckerScore
		}
	}
	return ""
}

// check compares what the program printed with the test's answer, or has the checker's program do so. It ends with ctx.
func (g *grader) check(ctx context.Context, t job.Test) (ruling, error) {
	if g.program != nil {
		r, waited, err := g.checkByProgram(ctx, t)
		if waited && g.rechecks < maxRechecks {
			g.rechecks++
			r, _, err = g.checkByProgram(ctx, t)
		}
		return ruling{Ruling: r}, err
	}
	file, err := g.worker.openTestFile(ctx, g.job.Tenant, t.Expected())
	if err != nil {
		return ruling{}, err
	}
	defer file.Close()
	output, err := g.output.all()
	if err != nil {
		return ruling{}, err
	}
	checker, err := grading.NewChecker(g.checker.For(t))
	if err != nil {
		return ruling{}, err
	}
	answer := stoppable{ctx, file}
	ok, difference, err := checker.Check(answer, stoppable{ctx, output})
	var unusable *grading.AnswerError
	if err == nil || errors.As(err, &unusable) {
		// The rest, up to MaxTestBytes: an answer is known to be the submitted one at its end only.
		if _, rest := io.Copy(io.Discard, answer); rest != nil {
			return ruling{}, fmt.Errorf("read the answer: %w", rest)
		}
	}
	r := ruling{Ruling: grading.Ruling{Verdict: job.WrongAnswer}, difference: difference}
	if ok {
		r.Verdict = job.Accepted
	}
	return r, err
}

// checkByProgram makes one check; waited is that of [checkerProgram.check].
func (g *grader) checkByProgram(ctx context.Context, t job.Test) (r grading.Ruling, waited bool, err error) {
	input, err := g.readInput(ctx)
	if err != nil {
		return r, false, err
	}
	defer input.Close()
	answer, err := g.worker.openTestFile(ctx, g.job.Tenant, t.Expected())
	if err != nil {
		return r, false, err
	}
	defer answer.Close()
	output, err := g.output.all()
	if err != nil {
		return r, false, err
	}
	return g.program.check(ctx, toCheck{content{input, input.Size()}, content{answer, answer.Size()}, content{output, g.output.size}, g.state(), g.passes - g.pass, t.CheckerArgs})
}
