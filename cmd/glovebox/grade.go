package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type gradeOptions struct {
	problem   string
	runtime   string
	timeLimit time.Duration
	format    string
	json      bool
}

func (o *gradeOptions) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.timeLimit, "time-limit", 0, "CPU time of each test, `DURATION` such as 2s; the package's, or derived, by default")
	cmd.Flags().BoolVar(&o.json, "json", false, "the same as --format json")
}

// ofAny are the formats of reports on any number of submissions, the default first; ofOne are those on one.
var (
	ofAny = []string{formatTable, formatJSON, formatJUnit}
	ofOne = []string{formatGradescope, formatExercism}
)

// check checks the options, and settles on a format.
func (o *gradeOptions) check(formats ...string) error {
	if o.json {
		if o.format != "" && o.format != formatJSON {
			return usagef("--json beside --format %s: want one of them", o.format)
		}
		o.format = formatJSON
	}
	o.format = cmp.Or(o.format, formatTable)
	switch {
	case !slices.Contains(formats, o.format):
		return usagef("--format %s: want %s", o.format, strings.Join(formats, ", "))
	case o.timeLimit < 0 || o.timeLimit%time.Millisecond != 0:
		return usagef("--time-limit %s: want whole milliseconds, such as 500ms or 2s", o.timeLimit)
	}
	return nil
}

func (a *app) gradeCommand() *cobra.Command {
	var o gradeOptions
	cmd := &cobra.Command{
		Use:   "grade --problem DIR|DIGEST [SUBMISSION…]",
		Short: "Judge submissions by the tests of a problem",
		Long: `Run each SUBMISSION, a file or a folder, on the tests of a problem, and print what it came
to. Files in a folder whose names begin with a dot are left out. The problem is a folder in the
Kattis problem package format; the smallest one has data/secret/1.in and data/secret/1.ans
("glovebox problem init" writes one). Answers never enter the sandbox.

Without a SUBMISSION, check the problem as "glovebox problem check" does.

With the DIGEST of a stored problem ("glovebox problem upload"), nothing of the problem has to be
on this machine; each SUBMISSION is sent as it is. Limits are the problem's own.

Where the problem has no time limit, it is derived from its accepted submissions, which are
run first; without any it is ` + defaultTimeLimit.String() + `. All that are run have to be as expected. Limits are those of
the package; those of the operator have to allow them.

The formats gradescope and exercism are those platforms' results.json, on one SUBMISSION. Where
Glovebox or the judge failed, nothing is printed in them: that is nobody's score.

Exit codes: 0 every submission was accepted, 1 some were not, 2 the problem can't be read, or
has what can't be judged yet, or its time limit can't be derived, or a SUBMISSION isn't there, or
none is taken, 3 some were not judged: Glovebox or the judge failed, or they are not taken, as they
can't be read, are too large or in a language that is not allowed.`,
		Example: `  glovebox grade --problem sum solution.py
  glovebox grade --problem sum --format junit submissions/*.py > report.xml
  glovebox grade --problem sum --format gradescope solution.py > results.json
  glovebox grade --problem sum
  glovebox grade --problem "$(glovebox problem upload sum)" class/*`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.problem == "" {
				return usagef("--problem is missing: the folder of the problem, or the digest of a stored one")
			}
			if isStored(o.problem) {
				return a.gradeStored(cmd.Context(), o, args)
			}
			if len(args) == 0 {
				return a.checkProblem(cmd.Context(), o.problem, checkOptions{gradeOptions: o})
			}
			return a.grade(cmd.Context(), o, args)
		},
	}
	cmd.Flags().StringVarP(&o.problem, "problem", "p", "", "`DIR` of the problem, or the digest of a stored one")
	cmd.Flags().StringVarP(&o.runtime, "runtime", "r", "", "`NAME` of the runtime; guessed from the files' names by default")
	cmd.Flags().StringVar(&o.format, "format", "", "`FORMAT` of the report: table (the default), json, junit, gradescope or exercism")
	o.add(cmd)
	return cmd
}

// defaultTimeLimit is that of a problem that says nothing, and has no submission that it follows from.
const defaultTimeLimit = 2 * time.Second

func (a *app) grade(ctx context.Context, o gradeOptions, submissions []string) error {
	if err := o.checkFor(submissions); err != nil {
		return err
	}
	problem, closer, err := openProblem(o.problem)
	if err != nil {
		return err
	}
	defer closer.Close()
	attempts, err := a.readAttempts(submissions)
	if err != nil {
		return err
	}
	return a.withJobs(func(jobs *producer.Client) error {
		g, err := a.newGrader(ctx, jobs, problem, o.runtime)
		if err != nil {
			return err
		}
		limit, err := g.timeLimit(ctx, o.timeLimit)
		if err != nil {
			return err
		}
		for _, t := range attempts {
			t.run = kattis.Run{Time: limit}
		}
		if err := g.judge(ctx, attempts); err != nil {
			return err
		}
		report := g.report(o.problem, limit, attempts)
		if o.format == formatExercism {
			if report.inputs, err = g.visibleInputs(); err != nil {
				return err
			}
		}
		if err := a.printReport(report, o.format); err != nil {
			return err
		}
		return report.exit()
	})
}

// checkFor is check for a report on these submissions.
func (o *gradeOptions) checkFor(submissions []string) error {
	formats := ofAny
	if len(submissions) == 1 {
		formats = slices.Concat(ofAny, ofOne)
	} else if slices.Contains(ofOne, o.format) {
		return usagef("--format %s is a report on one SUBMISSION (got %d)", o.format, len(submissions))
	}
	return o.check(formats...)
}

// readAttempts reads submissions, before any is run. One that can't be read says why, so that the others are judged. One that isn't there
// is an error, as it is no submission, and so it is where none can be read.
func (a *app) readAttempts(paths []string) ([]*attempt, error) {
	var attempts []*attempt
	var first error
	unread := 0
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil {
			return nil, &failure{code: exitUsage, err: err}
		}
		t := &attempt{name: path}
		var err error
		if t.program, err = a.readProgram(path); err != nil {
			t.why = strings.TrimPrefix(err.Error(), path+": ")
			first = cmp.Or(first, err)
			unread++
		}
		attempts = append(attempts, t)
	}
	if unread == len(paths) {
		return nil, first
	}
	return attempts, nil
}

// readProgram reads a submission: a file, or a folder with all that is in it.
func (a *app) readProgram(path string) (kattis.Program, error) {
	var p kattis.Program
	info, err := os.Stat(path)
	if err != nil {
		return p, &failure{code: exitUsage, err: err}
	}
	if !info.IsDir() {
		content, err := a.read(path)
		if err != nil {
			return p, err
		}
		name := filepath.Base(path)
		if problem := job.CheckName(name); problem != "" {
			return p, usagef("the name of %s %s", path, problem)
		}
		p.Files = []job.File{file(name, content)}
	} else {
		root, err := os.OpenRoot(path)
		if err != nil {
			return p, &failure{code: exitUsage, err: err}
		}
		defer root.Close()
		var skipped []string
		p.Files, skipped, err = kattis.ReadProgram(root.FS())
		for _, s := range skipped {
			fmt.Fprintf(a.stderr, "warning: %s: %s: it is left out\n", plain(path), plain(s))
		}
		if err != nil {
			return p, usagef("%s: %w", path, err)
		}
	}
	p.Language = kattis.LanguageOf(p.Names())
	return p, nil
}

// openProblem reads a package. What is wrong with it is the user's to mend.
func openProblem(dir string) (*kattis.Problem, interface{ Close() error }, error) {
	p, closer, err := kattis.Open(dir)
	if err != nil {
		return nil, nil, &failure{code: exitUsage, err: fmt.Errorf("%s: %w", dir, err)}
	}
	return p, closer, nil
}
