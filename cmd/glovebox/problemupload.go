package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// A stored problem has up to uploadInline bytes of its tests' inputs and answers in itself; where there are more, those larger than
// uploadSmall are uploaded. So a job that is made of it mostly goes into Redis, and needs no request to the bucket.
const (
	uploadInline = 16 << 10
	uploadSmall  = 128
)

func (a *app) problemUploadCommand() *cobra.Command {
	var timeLimit time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "upload DIR",
		Short: "Store a problem, and print its digest",
		Long: `Store a problem, with its tests, and print its digest. A submission is graded by it as a job
that names that digest: "glovebox submit --problem DIGEST", or "problem" in POST /v1/jobs. The
same problem has the same digest, and is stored once. It is kept until it is deleted.

Where the problem has no time limit, it is derived from its accepted submissions, which are
run first; without any it is ` + defaultTimeLimit.String() + `. What is derived differs a little each time, and so the
digest: --time-limit gives one, and "glovebox problem check --write-time-limit" keeps one.
All that are run for it have to be as expected.

Exit codes: 0 the problem is stored, 2 it can't be read, has what can't be judged yet, or its
time limit can't be derived, 3 Glovebox failed.`,
		Example: `  glovebox problem upload sum
  glovebox submit --wait --problem "$(glovebox problem upload sum)" solution.py`,
		Args: one("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := gradeOptions{problem: args[0], timeLimit: timeLimit}
			if err := o.check(ofAny...); err != nil {
				return err
			}
			return a.uploadProblem(cmd.Context(), o, asJSON)
		},
	}
	cmd.Flags().DurationVar(&timeLimit, "time-limit", 0, "CPU time of each test, `DURATION` such as 2s; the package's, or derived, by default")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) uploadProblem(ctx context.Context, o gradeOptions, asJSON bool) error {
	problem, closer, err := openProblem(o.problem)
	if err != nil {
		return err
	}
	defer closer.Close()
	return a.withJobs(func(jobs *producer.Client) error {
		g, err := a.openGrader(ctx, jobs, problem, "")
		if err != nil {
			return err
		}
		if g.uploads, err = g.upload(ctx, uploadInline, uploadSmall); err != nil {
			return err
		}
		limit, err := g.timeLimit(ctx, o.timeLimit)
		if err != nil {
			return err
		}
		stored, err := problem.Stored(kattis.Run{Time: limit, Uploads: g.uploads, Validator: g.validator}, g.runtimeFor)
		if err != nil {
			return &failure{code: exitUsage, err: fmt.Errorf("%s: %w", o.problem, err)}
		}
		abs, err := filepath.Abs(o.problem)
		if err != nil {
			return err
		}
		stored.Name = job.Clip(cmp.Or(stored.Name, filepath.Base(abs)), maxProblemName)
		head, err := jobs.StoreProblem(ctx, stored)
		if g.fit(&stored.Limits, stored.Checker, err) {
			head, err = jobs.StoreProblem(ctx, stored)
		}
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(head)
		}
		fmt.Fprintln(a.stdout, plain(head.Digest))
		return nil
	})
}

// maxProblemName leaves room for an ellipsis in what a name may have.
const maxProblemName = 190

func (a *app) problemListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the stored problems",
		Long:    `List the stored problems, the newest first.`,
		Example: `  glovebox problem list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(problems *producer.Client) error {
				list, err := problems.ListProblems(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.ProblemList{Problems: list})
				}
				w := a.table()
				fmt.Fprintln(w, "DIGEST\tNAME\tTESTS\tSTORED")
				for _, p := range list {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", plain(p.Digest), plain(p.Name), p.Tests, p.CreatedAt.Local().Format(time.DateTime))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) problemShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show DIGEST",
		Short:   "Print a stored problem as JSON",
		Long:    `Print a stored problem as JSON, its answers included.`,
		Example: `  glovebox problem show 9f86d0… | jq .problem.limits`,
		Args:    one("DIGEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(problems *producer.Client) error {
				p, err := problems.Problem(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printJSON(p)
			})
		},
	}
}

func (a *app) problemRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm DIGEST…",
		Short: "Delete stored problems",
		Long: `Delete stored problems. Jobs that name one go on. What it graded can't be graded again by
another one: do that first, with "glovebox problem regrade".`,
		Example: `  glovebox problem rm 9f86d0…`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(problems *producer.Client) error {
				var errs []error
				for _, digest := range args {
					if err := problems.DeleteProblem(cmd.Context(), digest); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(digest), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}
