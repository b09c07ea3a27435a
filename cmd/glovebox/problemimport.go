package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/grading/convert"
)

func (a *app) problemImportCommand() *cobra.Command {
	var o convert.Options
	cmd := &cobra.Command{
		Use:   "import SRC DIR",
		Short: "Make a problem of one for DMOJ or Polygon",
		Long: `Read SRC, a problem of another judge, and write it into the new folder DIR as a problem that
"glovebox grade" reads: in the Kattis problem package format, version 2025-09. SRC is a folder or
a zip archive, with DMOJ's init.yml or Polygon's problem.xml. Nothing in it is run.

What would be graded otherwise than by its own judge is an error that says what to do. What no
verdict depends on is left out, with a warning: statements, generators, feedback.

DMOJ keeps limits in its site, not in init.yml: give them. "glovebox problem check DIR" then runs
the problem's own submissions, which Polygon's packages have.

Exit codes: 0 the problem is there, 2 SRC can't be read, or has what can't be imported.`,
		Example: `  glovebox problem import --time-limit 2s --memory-mb 64 dmoj/aplusb aplusb
  glovebox problem import a-plus-b-7.zip aplusb && glovebox problem check aplusb`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("SRC and DIR are wanted, not %d arguments: %s", len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.importProblem(args[0], args[1], o) },
	}
	cmd.Flags().DurationVar(&o.TimeLimit, "time-limit", 0, "CPU time of each test, `DURATION` such as 2s; the problem's own by default")
	cmd.Flags().Int64Var(&o.MemoryMB, "memory-mb", 0, "memory of each test, in `MIB`; the problem's own by default")
	setTwin(cmd, "memory-mb", "GLOVEBOX_IMPORT_MEMORY_MB") // GLOVEBOX_MEMORY_MB is the worker's
	return cmd
}

func (a *app) importProblem(src, dir string, o convert.Options) error {
	switch {
	case o.TimeLimit < 0 || o.TimeLimit%time.Millisecond != 0:
		return usagef("--time-limit %s: want whole milliseconds, such as 500ms or 2s", o.TimeLimit)
	case o.MemoryMB < 0 || o.MemoryMB > convert.MaxMemoryMB:
		return usagef("--memory-mb %d: want 1 to %d", o.MemoryMB, convert.MaxMemoryMB)
	}
	if abs, err := filepath.Abs(src); err == nil {
		o.Name = strings.TrimSuffix(filepath.Base(abs), ".zip")
	}
	report, err := convert.Import(src, dir, o)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already; want the name of a new folder", dir)
	}
	if err != nil {
		return &failure{code: exitUsage, err: fmt.Errorf("%s: %w", src, err)}
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", plain(w))
	}
	fmt.Fprintf(a.stderr, "%s is there, from %s: %d tests", dir, report.From, report.Tests)
	if report.Groups > 0 {
		fmt.Fprintf(a.stderr, " in %d groups", report.Groups)
	}
	next := "check"
	if report.Submissions == 0 {
		next = "check --dry-run"
	}
	fmt.Fprintf(a.stderr, ", %d submissions; \"glovebox problem %s %s\" checks it\n", report.Submissions, next, dir)
	return nil
}
