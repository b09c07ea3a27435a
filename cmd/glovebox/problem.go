package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) problemCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "problem",
		Short: "Write, import, check and upload problems that grade submissions",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.problemInitCommand(), a.problemImportCommand(), a.problemCheckCommand(), a.problemSourcesCommand(),
		a.problemUploadCommand(), a.problemListCommand(), a.problemShowCommand(), a.problemRemoveCommand(), a.problemRegradeCommand(),
	)
	return cmd
}

// The smallest problem that works: two numbers are to be added.
var smallestProblem = []struct{ name, text string }{
	{"problem.yaml", `# A problem in the Kattis problem package format: see docs/grading/README.md.
problem_format_version: 2025-09
name: Sum
type: pass-fail
# limits:
#   time_limit: 2   # CPU seconds of each test; without it, twice the time of submissions/accepted/
`},
	{"data/sample/1.in", "1 2\n"}, // shown to whoever submits
	{"data/sample/1.ans", "3\n"},
	{"data/secret/1.in", "40 2\n"}, // never shown
	{"data/secret/1.ans", "42\n"},
	{"submissions/accepted/sum.py", "a, b = map(int, input().split())\nprint(a + b)\n"},
	{"submissions/wrong_answer/difference.py", "a, b = map(int, input().split())\nprint(a - b)\n"},
}

func (a *app) problemInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init DIR",
		Short: "Write the smallest problem that works",
		Long: `Write the smallest problem that works into a new folder: two tests, with what the program
reads (.in) and a right answer (.ans), an accepted submission and one that is to be rejected.`,
		Example: "  glovebox problem init sum && glovebox grade --problem sum",
		Args:    one("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.Mkdir(dir, 0o777); err != nil {
				if errors.Is(err, fs.ErrExist) {
					return usagef("%s is there already; want the name of a new folder", dir)
				}
				return &failure{code: exitUsage, err: err}
			}
			for _, f := range smallestProblem {
				path := filepath.Join(dir, filepath.FromSlash(f.name))
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					return err
				}
				if err := os.WriteFile(path, []byte(f.text), 0o666); err != nil {
					return err
				}
			}
			fmt.Fprintf(a.stderr, "%s is there; \"glovebox grade --problem %s\" checks it\n", dir, dir)
			return nil
		},
	}
}

type checkOptions struct {
	gradeOptions
	dryRun, write bool
}

func (a *app) problemCheckCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Run a problem's own submissions, and compare with what is expected",
		Long: `Read a problem, run everything below its submissions/ on all tests, and compare what each
comes to with what its folder, submissions.yaml or @EXPECTED_RESULTS@ expects.

Where the problem has no time limit, it is derived from the CPU time of the submissions that
have to be fast enough, measured on the workers that run them. The others get so much more
time that it shows whether the ones that are to be too slow are that by a margin.
--write-time-limit keeps it if all is as expected.

With --dry-run, read the problem and say what is in it; no Glovebox is needed for that.

Exit codes: 0 all is as expected, 1 it is not, 2 the problem can't be read, or has what can't
be judged yet, 3 Glovebox or the judge failed at some.`,
		Example: `  glovebox problem check sum
  glovebox problem check --dry-run sum
  glovebox problem check --write-time-limit sum`,
		Args: one("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.checkProblem(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.format, "format", "", "`FORMAT` of the report: table (the default), json or junit")
	o.add(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "read the problem, and run nothing")
	cmd.Flags().BoolVar(&o.write, "write-time-limit", false, "keep a derived time limit in the problem's .timelimit, if all is as expected")
	return cmd
}

func (a *app) checkProblem(ctx context.Context, dir string, o checkOptions) error {
	if err := o.check(ofAny...); err != nil {
		return err
	}
	problem, closer, err := openProblem(dir)
	if err != nil {
		return err
	}
	defer closer.Close()
	if o.dryRun {
		return a.describe(problem)
	}
	if len(problem.Submissions) == 0 {
		return usagef("%s has nothing below submissions/ to check it with; give a SUBMISSION: glovebox grade --problem %s SUBMISSION", dir, dir)
	}
	return a.withJobs(func(jobs *producer.Client) error {
		g, err := a.newGrader(ctx, jobs, problem, "")
		if err != nil {
			return err
		}
		c, err := g.check(ctx, o.timeLimit)
		if err != nil {
			return err
		}
		report := g.checkReport(dir, c)
		switch {
		case !o.write || !c.derived:
		case report.exit() != nil:
			fmt.Fprintln(a.stderr, "the time limit is not kept: not all submissions are as expected")
		default:
			text := strconv.FormatFloat(c.limit.Seconds(), 'f', -1, 64) + "\n"
			if err := os.WriteFile(filepath.Join(dir, ".timelimit"), []byte(text), 0o666); err != nil {
				return fmt.Errorf("keep the time limit: %w", err)
			}
		}
		if err := a.printCheck(report, o.format); err != nil {
			return err
		}
		return report.exit()
	})
}

// describe says what a problem has, without running anything.
func (a *app) describe(p *kattis.Problem) error {
	hidden := 0
	for _, t := range p.Tests {
		if t.Hidden {
			hidden++
		}
	}
	limit := "derived from submissions"
	if p.Limits.Time > 0 {
		limit = p.Limits.Time.String() + " (" + p.Limits.TimeFrom + ")"
	}
	checker := "default"
	if v := p.Validator; v != nil {
		checker = v.Path + " (" + v.Language + ")"
	}
	for _, arg := range p.Checker.Args {
		checker += " " + arg
	}
	if slices.ContainsFunc(p.Tests, func(t kattis.Test) bool { return len(t.CheckerArgs) > 0 }) {
		checker += ", with more in some tests"
	}
	if p.Interactive {
		checker += ", interactive"
	}
	if n := p.Limits.Passes; n > 1 {
		checker += fmt.Sprintf(", up to %d passes", n)
	}
	w := a.table()
	for _, row := range [][2]string{
		{"format", p.Version},
		{"tests", fmt.Sprintf("%d, of which %d are hidden", len(p.Tests), hidden)},
		{"checker", checker},
		{"time limit", limit},
		{"memory", bytesOf(p.Limits.MemoryMB << 20)},
		{"output", bytesOf(p.Limits.OutputMB << 20)},
		{"submissions", strconv.Itoa(len(p.Submissions))},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], plain(row[1]))
	}
	switch {
	case p.Scoring && p.Bounded():
		fmt.Fprintf(w, "largest score\t%s\n", points(p.MaxScore()))
	case p.Scoring:
		fmt.Fprintln(w, "largest score\tnone: the output validator gives what it likes")
	}
	return w.Flush()
}

// checked is what a check found.
type checked struct {
	limit    time.Duration
	derived  bool
	attempts []*attempt
}

// check runs first what bounds the time limit, then the others, which get as much time as it takes to
// see that they are too slow by a margin.
func (g *grader) check(ctx context.Context, given time.Duration) (checked, error) {
	c := checked{limit: given}
	if c.limit == 0 {
		c.limit = g.problem.Limits.Time
	}
	isLower := func(s kattis.Submission) bool {
		return slices.ContainsFunc(g.problem.Bounds(), func(l kattis.Submission) bool { return l.Path == s.Path })
	}
	known := slices.DeleteFunc(slices.Clone(g.problem.Submissions), func(s kattis.Submission) bool { return len(s.Expect) == 0 })
	longest := g.longest(c.limit)
	if c.limit == 0 {
		c.derived = true
		longest = g.provisional()
	}
	lower := g.attempts(slices.DeleteFunc(slices.Clone(known), func(s kattis.Submission) bool { return !isLower(s) }), longest)
	if err := g.judge(ctx, lower); err != nil {
		return c, err
	}
	if c.derived {
		c.limit = g.derive(lower)
	}
	others := g.attempts(slices.DeleteFunc(known, isLower), g.longest(c.limit))
	if err := g.judge(ctx, others); err != nil {
		return c, err
	}
	c.attempts = append(lower, others...)
	slices.SortFunc(c.attempts, func(x, y *attempt) int { return strings.Compare(x.name, y.name) })
	return c, nil
}

// longest is what a test may take, so that one that is too slow by the margin is seen to be.
func (g *grader) longest(limit time.Duration) time.Duration {
	margin := time.Duration(float64(limit) * g.problem.Limits.Timing.ToTLE)
	return min(margin.Truncate(time.Millisecond)+time.Millisecond, max(limit, g.provisional()))
}

// problemsOf compares an attempt with what is expected of it.
func (g *grader) problemsOf(t *attempt, limit time.Duration) (verdict job.Verdict, score float64, problems []string, err error) {
	if t.result.Verdict == job.VerdictCompileFailed {
		for _, e := range t.expect {
			if !slices.Contains(e.Whole, job.VerdictCompileFailed) {
				problems = append(problems, "does not compile")
			}
		}
		return t.result.Verdict, 0, slices.Compact(problems), nil
	}
	whole, err := g.whole(t, limit)
	if err != nil {
		return "", 0, nil, err
	}
	for _, e := range t.expect {
		if err := e.Check(g.problem, whole); err != nil {
			problems = append(problems, err.Error())
		}
		at, took := g.slowest(t, e)
		switch {
		case e.Lower && at != "" && took.Seconds()*g.problem.Limits.Timing.ToLimit > limit.Seconds()+1e-9 && g.problem.Version == kattis.V2025:
			problems = append(problems, fmt.Sprintf("takes %s on %s: the time limit of %s is less than %g times that", milliseconds(took.Milliseconds()), at, limit, g.problem.Limits.Timing.ToLimit))
		case e.Upper && at != "" && took > limit:
			if err := g.problem.Limits.Timing.CheckTLE(limit, took); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	return whole.Verdict, whole.Score, problems, nil
}
