package kattis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/job"
)

func TestReadErrors(t *testing.T) {
	t.Parallel()
	yaml := func(text string) string { return smallest + "-- problem.yaml --\n" + text + "\n" }
	much := yaml("constants: {a: " + strings.Repeat("a", maxConstant) + "}")
	half := strings.Repeat("{{a}}", 9<<20/maxConstant) + "\n" // of a source, and a little more
	use, several := half+half, ""
	for i := range 8 {
		several += fmt.Sprintf("-- submissions/accepted/%d.py --\n", i) + half
	}
	scoring := func(version, text string) string {
		return "-- problem.yaml --\nproblem_format_version: " + version + "\ntype: scoring\n" + text
	}
	tests := []struct {
		name, text string
		want       string // the whole error, or its begin
	}{
		{"nothing", "-- x --\n", "data/secret: has no tests"},
		{"no answer", "-- data/secret/1.in --\n", "data/secret/1.in: has no answer: 1.ans is missing"},
		{"no YAML", yaml("a: ["), "problem.yaml: is no YAML"},
		{"a list", yaml("- a"), "problem.yaml: want a map, not a list"},
		{"version", yaml("problem_format_version: 2030-01"), "problem.yaml: problem_format_version: want legacy, legacy-icpc, 2023-07-draft, 2025-09 (got 2030-01)"},
		{"key twice", yaml("type: scoring\ntype: scoring"), "problem.yaml: "},
		{"type", yaml("type: race"), "problem.yaml: type: want pass-fail, scoring"},
		{"scripts in an unknown language", yaml("validation: custom") + "-- output_validators/build --\n#!/bin/sh\n# glovebox-language: build and run scripts\n", "output_validators/build: glovebox-language: want the code of a language of the format, such as c, cpp or python3 (got build and run scripts)"},
		{"interactive, and no validator", yaml("problem_format_version: 2025-09\ntype: pass-fail interactive"), "problem.yaml: type: is interactive, and output_validators/ has no validator that is used"},
		{"interactive, legacy, and no validator", yaml("validation: custom interactive"), "problem.yaml: validation: is custom, and output_validators/ has no validator"},
		{"interactive, legacy, and default", yaml("validation: default interactive") + "-- output_validators/v.py --\n", "problem.yaml: validation: is interactive, and output_validators/ has no validator that is used"},
		{"interactive, and long outputs", yaml("validation: custom interactive\nlimits: {output: 9}") + "-- output_validators/v.py --\n", "problem.yaml: limits: interactive problems with more than 8 MiB of output, or of validation_output, are not supported yet"},
		{"interactive, and a long validation_output", yaml("validation: custom interactive\nlimits: {validation_output: 9}") + "-- output_validators/v.py --\n", "problem.yaml: limits: interactive problems"},
		{"multi-pass, and no validator", yaml("problem_format_version: 2025-09\ntype: multi-pass"), "problem.yaml: type: is multi-pass, and output_validators/ has no validator that is used"},
		{"multi-pass, legacy, and default", yaml("validation: default multi-pass") + "-- output_validators/v.py --\n", "problem.yaml: validation: is multi-pass, and output_validators/ has no validator that is used"},
		{"multi-pass and interactive, and long outputs", yaml("problem_format_version: 2025-09\ntype: [multi-pass, interactive]\nlimits: {output: 9}") + "-- output_validator/v.py --\n", "problem.yaml: limits: interactive problems"},
		{"passes", yaml("problem_format_version: 2025-09\ntype: multi-pass\nlimits: {validation_passes: 0}") + "-- output_validator/v.py --\n", "problem.yaml: limits.validation_passes: want a number from 1 to 100 (got 0)"},
		{"submit-answer", yaml("type: [submit-answer]"), "problem.yaml: type: submit-answer problems are not supported yet"},
		{"custom, and no validator", yaml("validation: custom"), "problem.yaml: validation: is custom, and output_validators/ has no validator"},
		{"two validators", yaml("validation: custom") + "-- output_validators/a/v.py --\n-- output_validators/b/v.py --\n", "output_validators: several output validators are not supported yet"},
		{"validators in two folders", yaml("validation: custom") + "-- output_validators/v.py --\n-- output_validator/v.py --\n", "output_validators: is there beside output_validator; one of the two is wanted"},
		{"validator in no language", yaml("validation: custom") + "-- output_validators/v.xyz --\n", "output_validators: is in no language that is known: v.xyz"},
		{"static validator", smallest + "-- static_validator/v.py --\n", "static_validator: static validators are not supported yet"},
		{"least score", yaml("type: scoring\ngrading: {objective: min}"), "problem.yaml: grading.objective: problems with the least score"},
		{"checker's arguments", yaml("validator_flags: float_tolerance x"), "problem.yaml: arguments of the output validator: is not a tolerance (got x)"},
		{"memory", yaml("limits: {memory: 0}"), "problem.yaml: limits.memory: want a number from 1 to"},
		{"memory, no whole number", yaml("limits: {memory: 1.5}"), "problem.yaml: limits.memory: want a whole number"},
		{"memory, no number", yaml("limits: {memory: [1]}"), "problem.yaml: limits.memory: want a number from 1 to 1.048576e+06, not a list"},
		{"time", yaml("limits: {time_limit: nan}"), "problem.yaml: limits.time_limit: want a number from 0.001 to 3600 (got nan)"},
		{"a limit of no name", yaml("problem_format_version: 2025-09\nlimits: {mem: 1}"), "problem.yaml: limits.mem: there is no such limit"},
		{".timelimit", smallest + "-- .timelimit --\nsoon\n", ".timelimit: want seconds (got soon)"},
		{"constant", yaml("constants: {a-b: 1}"), "problem.yaml: constants.a-b: want a name"},
		{"key of a group", smallest + "-- data/secret/testdata.yaml --\non_rejct: break\n", "data/secret/testdata.yaml: on_rejct: there is no such key"},
		{"both names", smallest + "-- data/secret/testdata.yaml --\n-- data/secret/test_group.yaml --\n", "data/secret/test_group.yaml: is there beside data/secret/testdata.yaml"},
		{"custom grader", smallest + "-- data/testdata.yaml --\ngrading: custom\n", "data/testdata.yaml: grading: custom graders are not supported yet"},
		{"grader flag", smallest + "-- data/testdata.yaml --\ngrader_flags: median\n", "data/testdata.yaml: grader_flags: want worst_error"},
		{"negative score", smallest + "-- data/testdata.yaml --\naccept_score: -1\n", "data/testdata.yaml: accept_score: want a number from 0 to 1e+09 (got -1)"},
		{"key of a test", smallest + "-- data/secret/1.yaml --\nstdin: x\n", "data/secret/1.yaml: stdin: there is no such key"},
		{"files of a test", smallest + "-- data/secret/1.files/a --\n", "data/secret/1.files: files beside a test's input are not supported yet"},
		{"long hint", smallest + "-- data/secret/1.yaml --\nhint: " + strings.Repeat("a", job.MaxHintBytes+1), "data: tests[0].hint: is too long"},
		{"arguments that differ", smallest + "-- data/sample/1.in --\n-- data/sample/1.ans --\n-- data/sample/testdata.yaml --\noutput_validator_flags: float_tolerance\n", "data/sample/testdata.yaml: arguments of the output validator: lacks its number"},
		{"both formats' scores", smallest + scoring(Draft2023, "-- data/testdata.yaml --\naccept_score: 1\n-- data/secret/test_group.yaml --\nmax_score: 1\n"), "data/secret/test_group.yaml: max_score: is of format 2025-09, and accept_score in data/testdata.yaml of an older one"},
		{"no max_score", scoring(V2025, "-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret/g/test_group.yaml: max_score: is missing"},
		{"tests and groups", smallest + scoring(V2025, "-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret: has tests and folders"},
		{"a group in a group", scoring(V2025, "-- data/secret/g/test_group.yaml --\nmax_score: 1\n-- data/secret/g/d/test_group.yaml --\nmax_score: 1\n-- data/secret/g/d/1.in --\n-- data/secret/g/d/1.ans --\n"), "data/secret/g/d/test_group.yaml: is deeper than the group data/secret/g: want it in data/sample, data/secret or a folder directly in data/secret"},
		{"a group in a folder of a group, by the other name", scoring(Draft2023, "-- data/secret/g/testdata.yaml --\nmax_score: 1\n-- data/secret/g/d/e/testdata.yaml --\nargs: [a]\n-- data/secret/g/d/e/1.in --\n-- data/secret/g/d/e/1.ans --\n"), "data/secret/g/d/e/testdata.yaml: is deeper than the group data/secret/g"},
		{"a group in no group", scoring(V2025, "-- data/secret/g/d/test_group.yaml --\nmax_score: 1\n-- data/secret/g/d/1.in --\n-- data/secret/g/d/1.ans --\n"), "data/secret/g/d/test_group.yaml: is deeper than the group data/secret/g"},
		{"unbounded", smallest + scoring(V2025, "-- data/secret/test_group.yaml --\nmax_score: unbounded\n"), "data/secret/test_group.yaml: max_score: is missing"},
		{"pass-fail without a largest score", scoring(V2025, "-- output_validator/v.py --\n-- data/secret/test_group.yaml --\nmax_score: unbounded\n-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret/g/test_group.yaml: max_score: is missing: a group that is pass-fail"},
		{"secret, pass-fail without a largest score", smallest + scoring(V2025, "-- output_validator/v.py --\n-- data/secret/test_group.yaml --\nmax_score: unbounded\nscore_aggregation: pass-fail\n"), "data/secret/test_group.yaml: max_score: is missing: a group that is pass-fail"},
		{"a group without a largest score, where secret has one", scoring(V2025, "-- output_validator/v.py --\n-- data/secret/g/test_group.yaml --\nscore_aggregation: sum\n-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret/g/test_group.yaml: max_score: is missing: secret has a largest score"},
		{"aggregations", scoring(V2025, "-- data/secret/test_group.yaml --\nscore_aggregation: pass-fail\n-- data/secret/g/test_group.yaml --\nscore_aggregation: sum\n-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret/g/test_group.yaml: score_aggregation: want pass-fail"},
		{"score of sample", smallest + scoring(V2025, "-- data/sample/test_group.yaml --\nmax_score: 1\n-- data/sample/1.in --\n-- data/sample/1.ans --\n"), "data/sample/test_group.yaml: max_score: is not for sample"},
		{"require_pass of a later one", scoring(V2025, "-- data/secret/a/test_group.yaml --\nmax_score: 1\nrequire_pass: secret/b\n-- data/secret/a/1.in --\n-- data/secret/a/1.ans --\n-- data/secret/b/test_group.yaml --\nmax_score: 1\n-- data/secret/b/1.in --\n-- data/secret/b/1.ans --\n"), "data: groups[2].require_pass[0]: is not a group before this one"},
		{"submissions.yaml, verdict", smallest + "-- submissions/submissions.yaml --\na: {permitted: [OK]}\n", "submissions/submissions.yaml: a.permitted: want a list of AC, WA, TLE and RTE (got OK)"},
		{"submissions.yaml, brace", smallest + "-- submissions/submissions.yaml --\n'{a': {}\n", "submissions/submissions.yaml: {a: has a brace"},
		{"submissions.yaml, braces", smallest + "-- submissions/submissions.yaml --\n'" + strings.Repeat("{a,b}", 12) + "': {}\n", "submissions/submissions.yaml: {a,b}"},
		{"submissions.yaml, message", smallest + "-- submissions/submissions.yaml --\na: {message: x}\n", "submissions/submissions.yaml: a.message: messages of custom output validators"},
		{"submissions.yaml, key", smallest + "-- submissions/submissions.yaml --\na: {secret: {allowed: [AC]}}\n", "submissions/submissions.yaml: a.secret.allowed: there is no such key"},
		{"long constant", yaml("constants: {a: " + strings.Repeat("a", maxConstant+1) + "}"), "problem.yaml: constants.a: has 4097 bytes; a constant has up to 4096"},
		{"long variant", yaml("constants: {a: {value: 1, b: " + strings.Repeat("a", maxConstant+1) + "}}"), "problem.yaml: constants.a.b: has 4097 bytes"},
		{"constants make much of a source", much + "-- submissions/accepted/a.py --\n" + use, "submissions/accepted/a.py: is larger than 16777216 bytes once constants are replaced"},
		{"constants make much of a file in a folder", much + "-- include/c/a.h --\n" + use, "include/c/a.h: is larger than 16777216 bytes once constants are replaced"},
		{"constants make much of a folder", much + "-- include/c/a.h --\n" + half + "-- include/c/b.h --\n" + half, "include/c: has more than 16777216 bytes"},
		{"constants make much of YAML", much + "-- data/secret/testdata.yaml --\n#" + half, "data/secret/testdata.yaml: is larger than 1048576 bytes once constants are replaced"},
		{"constants make much of the package", much + several, "submissions/accepted/7.py: with it, more than 67108864 bytes are to be read of the package beside inputs and answers"},
		{"large YAML", yaml(strings.Repeat("# comment\n", 200000)), "problem.yaml: is larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Read(pack(tt.text))
			var fault *Error
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestMuchToRead: files that are links to one another's content cost a package nothing, and whoever reads it each time.
func TestMuchToRead(t *testing.T) {
	t.Parallel()
	files := pack(smallest)
	source := make([]byte, maxSource)
	for i := range maxAll/maxSource + 1 {
		files[fmt.Sprintf("submissions/accepted/%d.py", i)] = &fstest.MapFile{Data: source}
	}
	if _, err := Read(files); err == nil || !strings.HasPrefix(err.Error(), "submissions/accepted/4.py: with it, more than 67108864 bytes are to be read") {
		t.Errorf("got %v", err)
	}
	delete(files, "submissions/accepted/0.py")
	if _, err := Read(files); err != nil {
		t.Error(err)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	write := func(dir, name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, link, target, want string }{
		{"inside", "data/secret/2.ans", "1.ans", ""},
		{"a folder inside", "data/secret/more", "../sample", ""},
		{"an answer outside", "data/secret/2.ans", "../../../outside", "data/secret/2.ans: can't be read: it leads out of the package"},
		{"absolute", "data/secret/2.ans", "/etc/passwd", "data/secret/2.ans: can't be read: it leads out of the package"},
		{"a folder outside", "submissions/accepted", "../..", "submissions/accepted: can't be read: it leads out of the package"},
		{"around itself", "data/secret/loop", "..", "folders deep"},
		{"problem.yaml outside", "problem.yaml", "../outside", "problem.yaml: can't be read: it leads out of the package"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			write(top, "outside", "name: secret of the host\n")
			dir := filepath.Join(top, "problem")
			write(dir, "data/secret/1.in", "")
			write(dir, "data/secret/1.ans", "")
			write(dir, "data/secret/2.in", "")
			write(dir, "data/sample/1.in", "")
			write(dir, "data/sample/1.ans", "")
			if tt.link != "data/secret/2.ans" {
				write(dir, "data/secret/2.ans", "")
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, tt.link)), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(tt.target, filepath.Join(dir, tt.link)); err != nil {
				t.Fatal(err)
			}
			p, closer, err := Open(dir)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer closer.Close()
				if len(p.Tests) < 3 {
					t.Errorf("got %d tests, want 3 or 4", len(p.Tests))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
