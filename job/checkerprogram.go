package job

import "fmt"

// The kinds of a checker that is a program of one's own: it is called as an output validator of the Kattis
// problem package format is, or as a checker that is written with testlib.h.
const (
	CheckKattis  = "kattis"
	CheckTestlib = "testlib"
)

// CheckerProgram is a checker that somebody wrote for their problem. It is run in a sandbox of its own,
// beside that of the submission, which never sees it.
type CheckerProgram struct {
	// Runtime names the language image; not the submission's, unless it happens to be the same.
	Runtime string `json:"runtime" doc:"Name or alias of the runtime that the checker is written for." example:"cpp"`
	// Source, Files, Entrypoint and Commands are as in [Spec]. Files are in the spec, or uploads.
	Source     string    `json:"source,omitempty" doc:"The main file's text. Either this or files[]."`
	Files      []File    `json:"files,omitempty" doc:"The checker's files, in the spec or uploaded; with no source, entrypoint names the one to run."`
	Entrypoint string    `json:"entrypoint,omitempty" doc:"The file to run; defaults to the runtime's file name."`
	Commands   *Commands `json:"commands,omitempty" doc:"Command lines for bash, in place of the runtime's own commands."`
	// Limits hold for each check. Input, answer and output are files in the sandbox and count against
	// MemoryMB. DiskMB defaults to MemoryMB.
	Limits Limits `json:"limits,omitempty" doc:"What the checker may use for each test; absent fields have its runtime's defaults. Input, answer and output are in its memory_mb."`
}

// Bounds of checkers that are programs.
const (
	// MaxCheckerBytes bounds all files of a checker's program, uploads included.
	MaxCheckerBytes = 16 << 20
	// MaxPasses bounds [Checker.Passes].
	MaxPasses = 100
	// MaxPassesOfAll bounds the number of tests times the passes of each, where they have more than one. With them,
	// and what is run twice, a job still ends within the two hours for which a sandbox may live.
	MaxPassesOfAll = 2 * MaxTests
	// MaxPassInput bounds what a test's further pass reads, bytes.
	MaxPassInput = 8 << 20
	// MaxPassState bounds what a checker's feedback directory may hold from one pass to the next, as a tar archive, bytes.
	MaxPassState = 1 << 20
	// MaxDialogBytes bounds what each side of a dialog may say in a test, bytes: the program, and an interactor
	// ([Checker.Interactive]).
	MaxDialogBytes = 8 << 20
)

// Spec is the program as if it were a job of its own.
func (p CheckerProgram) Spec() Spec {
	return Spec{Runtime: p.Runtime, Source: p.Source, Files: p.Files, Entrypoint: p.Entrypoint, Commands: p.Commands, Limits: p.Limits}
}

// CheckerProgram returns the program of the job's checker, or nil.
func (s Spec) CheckerProgram() *CheckerProgram {
	if s.Checker == nil {
		return nil
	}
	return s.Checker.Program
}

// Passes is how many times at most the program is run in each test.
func (s Spec) Passes() int {
	if s.Checker == nil {
		return 1
	}
	return min(max(1, s.Checker.Passes), MaxPasses)
}

// checkCheckerProgram checks what the checker's program is, as for a job of its own.
func (s Spec) checkCheckerProgram(runtimes []string, maximum Limits) (errs []FieldError) {
	program := s.CheckerProgram()
	if program == nil {
		return nil
	}
	for i, f := range program.Files {
		if f.Artifact != "" {
			errs = append(errs, FieldError{fmt.Sprintf("checker.program.files[%d].artifact", i), clip(f.Artifact), "can't be a file of a checker", "content, content_base64 or upload"})
		}
	}
	if err := program.Spec().Check(runtimes, nil, maximum); err != nil {
		for _, e := range err.(Invalid) { //nolint:errorlint,forcetypeassert // Check returns nothing else
			e.Field = "checker.program." + e.Field
			errs = append(errs, e)
		}
	}
	if s.Checker.Interactive {
		errs = append(errs, checkDialog("limits.output_kb", s.Limits)...)
		errs = append(errs, checkDialog("checker.program.limits.output_kb", program.Limits)...)
	}
	if s.Graded() {
		wall, checking := s.Limits.Or(DefaultLimits).WallMS, program.Limits.Or(DefaultLimits).WallMS
		if most := s.mostWall(); wall <= most && wall+checking > most {
			errs = append(errs, FieldError{
				"checker.program.limits.wall_ms", checking, "is too long for " + s.testsAndPasses(),
				fmt.Sprintf("up to %d: with limits.wall_ms, all tests together have %d", max(most-wall, 0), MaxTestsWall),
			})
		}
	}
	return errs
}

// checkDialog checks how much a side of a dialog may say.
func checkDialog(field string, l Limits) (errs []FieldError) {
	if most := int64(MaxDialogBytes >> 10); l.OutputKB > most {
		errs = append(errs, FieldError{field, l.OutputKB, "is too much for an interactive checker", fmt.Sprintf("up to %d", most)})
	}
	return errs
}

// checkInteractive checks what an interactor can be.
func (c Checker) checkInteractive() *FieldError {
	if c.Interactive && c.Program == nil {
		return &FieldError{"checker.interactive", true, "is for checkers that are a program only", "kind kattis or testlib, or false"}
	}
	return nil
}

// mostWall is the most that each run may have, ms.
func (s Spec) mostWall() int64 { return MaxTestsWall / int64(len(s.Tests)*s.Passes()) }

func (s Spec) testsAndPasses() string {
	text := fmt.Sprintf("%d tests", len(s.Tests))
	if n := s.Passes(); n > 1 {
		text += fmt.Sprintf(" of %d passes", n)
	}
	return text
}

// checkPasses checks how many passes a checker may ask for.
func (c Checker) checkPasses(tests int) *FieldError {
	switch {
	case c.Passes == 0:
	case c.Kind != CheckKattis:
		return &FieldError{"checker.passes", c.Passes, "is for checkers of kind kattis only", "kind kattis, or nothing"}
	case c.Passes < 0 || c.Passes > MaxPasses:
		return &FieldError{"checker.passes", c.Passes, "is out of range", fmt.Sprintf("1 to %d", MaxPasses)}
	case c.Passes > 1 && c.Passes*tests > MaxPassesOfAll:
		return &FieldError{"checker.passes", c.Passes, fmt.Sprintf("are too many for %d tests", tests), fmt.Sprintf("up to %d: all tests together have %d", max(1, MaxPassesOfAll/tests), MaxPassesOfAll)}
	}
	return nil
}

// checkProgramKind checks that a checker has a program if it is one.
func (c Checker) checkProgramKind() *FieldError {
	switch isProgram := c.Kind == CheckKattis || c.Kind == CheckTestlib; {
	case isProgram && c.Program == nil:
		return &FieldError{"checker.program", nil, "is missing", "the checker's program, with its runtime and source"}
	case !isProgram && c.Program != nil:
		return &FieldError{"checker.program", nil, "is for checkers of kind kattis or testlib only", "kind kattis or testlib, or no program"}
	}
	return nil
}

// checkProgramArgs checks arguments of a checker's program.
func checkProgramArgs(field string, args []string) (err *FieldError) {
	checkWords(func(field string, value any, message, allowed string) {
		err = &FieldError{field, value, message, allowed}
	}, field, args, MaxArgs)
	return err
}
