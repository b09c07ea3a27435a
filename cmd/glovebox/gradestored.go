package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// isStored reports whether --problem names a stored problem: a folder that is called like one comes first.
func isStored(problem string) bool {
	if !job.IsSHA256(problem) {
		return false
	}
	_, err := os.Stat(problem)
	return errors.Is(err, fs.ErrNotExist)
}

// gradeStored is grade by a problem that the API has.
func (a *app) gradeStored(ctx context.Context, o gradeOptions, submissions []string) error {
	switch {
	case len(submissions) == 0:
		return usagef("no SUBMISSION: a stored problem was checked before it was uploaded; \"glovebox problem check DIR\" checks a folder")
	case o.timeLimit != 0:
		return usagef("--time-limit %s: a stored problem has its own; \"glovebox problem upload --time-limit\" stores one with another", o.timeLimit)
	}
	if err := o.checkFor(submissions); err != nil {
		return err
	}
	attempts, err := a.readAttempts(submissions)
	if err != nil {
		return err
	}
	return a.withJobs(func(jobs *producer.Client) error {
		g := &grader{app: a, jobs: jobs, runtime: o.runtime}
		if g.stored, err = headOf(ctx, jobs, o.problem); err != nil {
			return err
		}
		if g.runtimes, err = jobs.Runtimes(ctx); err != nil {
			return err
		}
		if len(g.runtimes) == 0 {
			return job.ErrNoRuntimes
		}
		if err := g.judge(ctx, attempts); err != nil {
			return err
		}
		report := gradeReport{Problem: o.problem, Scoring: g.stored.Scoring}
		if report.Scoring {
			report.MaxScore = g.stored.MaxScore
		}
		for _, t := range attempts {
			report.Submissions = append(report.Submissions, gradedOf(t))
		}
		if err := a.printReport(report, o.format); err != nil {
			return err
		}
		return report.exit()
	})
}

// headOf returns what the API says of a stored problem. One that is not there has its digest alone: the API refuses what names it.
func headOf(ctx context.Context, problems *producer.Client, digest string) (*job.ProblemHead, error) {
	list, err := problems.ListProblems(ctx)
	if err != nil {
		return nil, err
	}
	for _, head := range list {
		if head.Digest != digest {
			continue
		}
		if head.MaxScore == nil { // no scores would be wrong ones
			return nil, &failure{code: exitGlovebox, err: errors.New("the API doesn't say whether the problem has scores: it is of an earlier version, or can't read the problem just now")}
		}
		return &head, nil
	}
	return &job.ProblemHead{Digest: digest}, nil
}
