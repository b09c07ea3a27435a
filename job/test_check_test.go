package job_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestCheckTests: what tests can't be, and with what they can't be together.
func TestCheckTests(t *testing.T) {
	t.Parallel()
	tests := func(n int) []job.Test {
		list := make([]job.Test, n)
		for i := range list {
			list[i] = job.Test{Name: fmt.Sprint(i)}
		}
		return list
	}
	program := func(p job.CheckerProgram, tests ...job.Test) job.Spec {
		return job.Spec{Tests: tests, Checker: &job.Checker{Kind: job.CheckKattis, Program: &p}}
	}
	with := func(s job.Spec, change func(*job.Spec)) job.Spec { change(&s); return s }
	big := strings.Repeat("x", job.MaxTestsInline/2)
	for _, c := range []struct {
		name string
		spec job.Spec
		want string // fields, "" for none
	}{
		{"fine", job.Spec{Tests: []job.Test{{Name: "1", Stdin: "a", Answer: "b", Args: []string{"c"}}}, Checker: &job.Checker{Kind: "exact"}, Groups: []job.Group{{Name: "g"}}}, ""},
		{"bytes", job.Spec{Tests: []job.Test{{Name: "1", StdinBase64: "AP8=", AnswerUpload: strings.Repeat("a", 64)}}}, ""},
		{"not counted as source", job.Spec{Tests: []job.Test{{Name: "1", Stdin: big, Answer: big}}, Limits: job.Limits{SourceKB: 1}}, ""},
		{"the most", job.Spec{Tests: tests(job.MaxTests), Limits: job.Limits{WallMS: 3000}}, ""},
		{"too many", job.Spec{Tests: tests(job.MaxTests + 1), Limits: job.Limits{WallMS: 1}}, "tests"},
		{"too long together", job.Spec{Tests: tests(301)}, "limits.wall_ms"},
		{"too large together", job.Spec{Tests: []job.Test{{Name: "1", Stdin: big, Answer: big + "x"}}}, "tests"},
		{"two inputs", job.Spec{Tests: []job.Test{{Name: "1", Stdin: "a", StdinBase64: "AA=="}}}, "tests[0]"},
		{"no base64", job.Spec{Tests: []job.Test{{Name: "1", AnswerBase64: "*"}}}, "tests[0].answer_base64"},
		{"no digest", job.Spec{Tests: []job.Test{{Name: "1", StdinUpload: "a"}}}, "tests[0].stdin_upload"},
		{"no text", job.Spec{Tests: []job.Test{{Name: "1", Stdin: "\xff"}}}, "tests[0].stdin"},
		{"an argument with NUL", job.Spec{Tests: []job.Test{{Name: "1", Args: []string{"\x00"}}}}, "tests[0].args[0]"},
		{"long arguments", job.Spec{Tests: []job.Test{{Name: "1", Args: []string{strings.Repeat("x", job.MaxTestArgBytes+1)}}}}, "tests[0].args"},
		{"one name", job.Spec{Tests: []job.Test{{Name: "1"}, {Name: "1"}}}, "tests[1].name"},
		{"stdin", job.Spec{Tests: tests(1), Stdin: "x"}, "stdin"},
		{"secrets", job.Spec{Tests: tests(1), Secrets: []string{"A"}}, "secrets"},
		{"stream", job.Spec{Tests: tests(1), Stream: true}, "stream"},
		{"checker alone", job.Spec{Checker: &job.Checker{}}, "checker"},
		{"groups alone", job.Spec{Groups: []job.Group{{Name: "g"}}}, "groups"},
		{"a checker's program", program(job.CheckerProgram{Runtime: "python", Source: "exit(42)"}, job.Test{Name: "1", CheckerArgs: []string{"a"}}), ""},
		{"a checker's program of many files", program(job.CheckerProgram{Runtime: "python", Files: []job.File{{Name: "a.py"}, {Name: "b.py", Upload: strings.Repeat("a", 64)}}, Entrypoint: "a.py"}, tests(1)...), ""},
		{"passes", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{WallMS: 750}}, tests(1000)...), func(s *job.Spec) { s.Checker.Passes, s.Limits.WallMS = 2, 750 }), ""},
		{"passes that are too long together", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{WallMS: 1}}, tests(1000)...), func(s *job.Spec) { s.Checker.Passes, s.Limits.WallMS = 2, 1501 }), "limits.wall_ms"},
		{"passes whose checks are", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{WallMS: 751}}, tests(1000)...), func(s *job.Spec) { s.Checker.Passes, s.Limits.WallMS = 2, 750 }), "checker.program.limits.wall_ms"},
		{"interactive", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{OutputKB: 8192}}, tests(1)...), func(s *job.Spec) { s.Checker.Interactive, s.Limits.OutputKB = true, 8192 }), ""},
		{"an interactive program that says too much", with(program(job.CheckerProgram{Runtime: "python", Source: "1"}, tests(1)...), func(s *job.Spec) { s.Checker.Interactive, s.Limits.OutputKB = true, 8193 }), "limits.output_kb"},
		{"an interactor that says too much", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{OutputKB: 8193}}, tests(1)...), func(s *job.Spec) { s.Checker.Interactive = true }), "checker.program.limits.output_kb"},
		{"too many passes of all", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{WallMS: 1}}, tests(1000)...), func(s *job.Spec) { s.Checker.Passes, s.Limits.WallMS = 3, 1 }), "checker.passes"},
		{"passes without end", with(program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{WallMS: 1}}, tests(1)...), func(s *job.Spec) { s.Checker.Passes, s.Limits.WallMS = math.MaxInt, 1 }), "checker.passes"},
		{"a checker of testlib", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"a"}}}, Checker: &job.Checker{Kind: job.CheckTestlib, Args: []string{"--group", "1"}, Program: &job.CheckerProgram{Runtime: "python", Source: "exit(0)"}}}, ""},
		{"a checker of testlib without a program", job.Spec{Tests: tests(1), Checker: &job.Checker{Kind: job.CheckTestlib}}, "checker.program"},
		{"a checker's program without source", program(job.CheckerProgram{Runtime: "python"}, tests(1)...), "checker.program.source"},
		{"a checker's runtime", program(job.CheckerProgram{Runtime: "pyhton", Source: "1"}, tests(1)...), "checker.program.runtime"},
		{"a checker's limits", program(job.CheckerProgram{Runtime: "python", Source: "1", Limits: job.Limits{MemoryMB: 1 << 20}}, tests(1)...), "checker.program.limits.memory_mb"},
		{"a checker that may take too long", program(job.CheckerProgram{Runtime: "python", Source: "1"}, tests(200)...), "checker.program.limits.wall_ms"},
		{"a checker's artifact", program(job.CheckerProgram{Runtime: "python", Files: []job.File{{Name: "a.py", Artifact: "default-abcdefghijklmnopqrstuvwxyz/a.py"}}}, tests(1)...), "checker.program.files[0].artifact"},
		{"a test's arguments for the default checker", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"float_tolerance", "1e-6"}}}, Checker: &job.Checker{Args: []string{"case_sensitive"}}}, ""},
		{"a test's arguments that are none", job.Spec{Tests: []job.Test{{Name: "1"}, {Name: "2", CheckerArgs: []string{"case_sensitive", "a"}}}}, "tests[1].checker_args[1]"},
		{"a test's number for the checker's argument", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"1e-6"}}}, Checker: &job.Checker{Args: []string{"float_tolerance"}}}, "checker.args[0] tests[0].checker_args[0]"},
		{"a test's tolerance without its number", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"float_tolerance"}}}}, "tests[0].checker_args[0]"},
		{"a test's arguments for another checker", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"a"}}}, Checker: &job.Checker{Kind: "lines"}}, "tests[0].checker_args"},
		{"as many arguments as there may be", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: slices.Repeat([]string{"case_sensitive"}, 6)}}, Checker: &job.Checker{Args: slices.Repeat([]string{"case_sensitive"}, job.MaxArgs-6)}}, ""},
		{"too many arguments with the checker's", job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: slices.Repeat([]string{"case_sensitive"}, 7)}}, Checker: &job.Checker{Args: slices.Repeat([]string{"case_sensitive"}, job.MaxArgs-6)}}, "tests[0].checker_args"},
		{"a tolerance that is 0 by underflow", job.Spec{Tests: tests(1), Checker: &job.Checker{Args: []string{"float_tolerance", "1e-5000"}}}, "checker.args[1]"},
		{"long arguments for a program", program(job.CheckerProgram{Runtime: "python", Source: "1"}, job.Test{Name: "1", CheckerArgs: []string{strings.Repeat("x", job.MaxTestArgBytes+1)}}), "tests[0].checker_args"},
		{"another checker", job.Spec{Tests: tests(1), Checker: &job.Checker{Kind: "magic"}}, "checker.kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.spec.Runtime, c.spec.Source = "python", "print(1)"
			err := c.spec.Check([]string{"python"}, nil, job.DefaultMaximums)
			var invalid job.Invalid
			if err != nil && !errors.As(err, &invalid) {
				t.Fatal(err)
			}
			var fields []string
			for _, e := range invalid {
				fields = append(fields, e.Field)
			}
			if got := strings.Join(fields, " "); got != c.want {
				t.Errorf("got %q, want %q: %v", got, c.want, err)
			}
		})
	}
	for want, checker := range map[int]*job.Checker{
		4: nil,
		6: {Kind: job.CheckKattis, Program: &job.CheckerProgram{}},
		9: {Kind: job.CheckTestlib, Program: &job.CheckerProgram{}},
	} {
		if n := (job.Spec{Tests: tests(1), Checker: checker}).Needs(); n != want {
			t.Errorf("%+v: needs version %d, want %d", checker, n, want)
		}
	}
	if n := (job.Spec{Tests: tests(1), Checker: &job.Checker{Kind: job.CheckKattis, Passes: 2, Program: &job.CheckerProgram{}}}).Needs(); n != 9 {
		t.Errorf("passes need version %d, want 9", n)
	}
	if n := (job.Spec{Tests: tests(1), Checker: &job.Checker{Kind: job.CheckTestlib, Interactive: true, Program: &job.CheckerProgram{}}}).Needs(); n != 10 {
		t.Errorf("an interactive checker needs version %d, want 10", n)
	}
	inPasses := job.Spec{Tests: tests(1), Placement: map[string]string{"a": "b"}, Checker: &job.Checker{Kind: job.CheckKattis, Interactive: true, Passes: 2, Program: &job.CheckerProgram{}}}
	if n := inPasses.Needs(); n != 12 {
		t.Errorf("passes of an interactive checker need version %d, want 12", n)
	}
	inPasses.Groups = []job.Group{{CheckerScore: "within"}}
	if n := inPasses.Needs(); n != 13 {
		t.Errorf("what a group takes of scores needs version %d, want 13", n)
	}
	own := job.Spec{Tests: []job.Test{{Name: "1", CheckerArgs: []string{"case_sensitive"}}}}
	if n := own.Needs(); n != 9 {
		t.Errorf("a test's arguments for the default checker: got version %d, want 9", n)
	}
	own.Checker = &job.Checker{Kind: job.CheckKattis, Program: &job.CheckerProgram{}}
	if n := own.Needs(); n != 6 {
		t.Errorf("a test's arguments for a program: got version %d, want 6", n)
	}
	const image = "example.com/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := (job.Spec{Image: image, Command: []string{"x"}, Tests: tests(1)}).Check(nil, []string{image}, job.DefaultMaximums); err == nil || !strings.Contains(err.Error(), "image") {
		t.Errorf("an image with tests: got %v", err)
	}
}
