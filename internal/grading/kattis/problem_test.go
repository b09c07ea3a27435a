package kattis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// pack makes a package of its text: "-- NAME --" begins each file.
func pack(text string) fstest.MapFS {
	files := fstest.MapFS{}
	name := ""
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok {
			name = strings.TrimSuffix(n, " --")
			files[name] = &fstest.MapFile{}
			continue
		}
		if name != "" {
			files[name].Data = append(files[name].Data, line...)
		}
	}
	return files
}

const smallest = `
-- data/secret/1.in --
1 2
-- data/secret/1.ans --
3
`

// with adds tests without content.
func with(text string, tests ...string) fstest.MapFS {
	files := pack(text)
	for _, t := range tests {
		files["data/"+t+".in"], files["data/"+t+".ans"] = &fstest.MapFile{}, &fstest.MapFile{}
	}
	return files
}

// summary is what a problem comes to, as lines.
func summary(p *Problem) string {
	s := fmt.Sprintf("%s scoring=%t max=%s time=%s checker=%v\n", p.Version, p.Scoring, short(p.MaxScore()), p.Limits.Time, p.Checker.Args)
	for _, t := range p.Tests {
		s += t.Name
		if t.Group != strings.TrimSuffix(t.Name, "/"+t.Name[strings.LastIndex(t.Name, "/")+1:]) {
			s += " in " + t.Group
		}
		if t.Hidden {
			s += " hidden"
		}
		if len(t.Args) > 0 {
			s += fmt.Sprintf(" %q", t.Args)
		}
		if t.Hint != "" {
			s += " hint=" + t.Hint
		}
		s += "\n"
	}
	number := func(name string, f *float64) string {
		if f == nil {
			return ""
		}
		return " " + name + "=" + short(*f)
	}
	for _, g := range p.Groups {
		s += fmt.Sprintf("[%s] %s %s %s", g.Name, g.Score, g.Verdict, g.OnReject)
		if g.AcceptAny {
			s += " any"
		}
		s += number("accept", g.AcceptScore) + number("reject", g.RejectScore) + number("max", g.MaxScore)
		if g.RequirePass != nil {
			s += fmt.Sprintf(" after %v", g.RequirePass)
		}
		s += "\n"
	}
	return s
}

func TestRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"the smallest", pack(smallest), `
legacy scoring=false max=1 time=0s checker=[]
secret/1 hidden
`},
		{"legacy, pass or fail", with(`
-- problem.yaml --
name: {sv: Två, en: Two}
validator_flags: float_tolerance 1e-6 case_sensitive
limits: {memory: 512, time_multiplier: 3}
-- data/sample/1.hint --
add them
-- .timelimit --
2.5
`, "sample/1", "secret/02", "secret/1", "secret/10", "secret/sub/a", "secret/z"), `
legacy scoring=false max=6 time=2.5s checker=[float_tolerance 1e-6 case_sensitive]
sample/1 hint=add them
secret/02 hidden
secret/1 hidden
secret/10 hidden
secret/sub/a hidden
secret/z hidden
`},
		{"legacy, scoring, the usual pattern", with(`
-- problem.yaml --
type: scoring
-- domjudge-problem.ini --
name = 'x'
timelimit='2'
-- data/testdata.yaml --
on_reject: continue
range: 0 100
grader_flags: ignore_sample
-- data/sample/testdata.yaml --
on_reject: continue
-- data/secret/testdata.yaml --
grader_flags: first_error accept_if_any_accepted
-- data/secret/g1/testdata.yaml --
on_reject: break
accept_score: "30"
range: 0 30
grader_flags: min
-- data/secret/g2/testdata.yaml --
on_reject: break
accept_score: 70
grader_flags: min
`, "sample/1", "secret/g1/1", "secret/g1/2", "secret/g2/1"), `
legacy scoring=true max=100 time=2s checker=[]
sample/1
secret/g1/1 hidden
secret/g1/2 hidden
secret/g2/1 hidden
[] sum worst continue max=100
[sample] sum always continue accept=0 reject=0 max=0
[secret] sum first continue any
[secret/g1] min worst break accept=30 max=30
[secret/g2] min worst break accept=70
`},
		{"2025-09, groups", with(`
-- problem.yaml --
problem_format_version: 2025-09
type: [pass-fail, scoring]
constants: {most: 40}
limits: {time_limit: 0.5}
-- data/secret/g1/test_group.yaml --
max_score: {{most}}
require_pass: sample
args: [-v]
-- data/secret/g2/test_group.yaml --
max_score: 60
score_aggregation: sum
require_pass: [sample, secret/g1]
full_feedback: true
-- data/secret/g2/b.yaml --
args: [--big, "a b"]
full_feedback: false
hint: use long
description: a large one
`, "sample/1", "secret/g1/1", "secret/g2/a", "secret/g2/b", "secret/g2/c"), `
2025-09 scoring=true max=100 time=500ms checker=[]
sample/1
secret/g1/1 hidden ["-v"]
secret/g2/a
secret/g2/b hidden ["--big" "a b"] hint=use long
secret/g2/c
[] sum  continue
[sample]   continue accept=0 reject=0 max=0
[secret] sum  continue accept=0 reject=0 max=100
[secret/g1] pass_fail  break accept=0 reject=0 max=40 after [sample]
[secret/g2] sum  continue accept=20 reject=0 max=60 after [sample secret/g1]
`},
		{"2025-09, tests alone", with(`
-- problem.yaml --
problem_format_version: 2025-09
type: scoring
-- data/secret/test_group.yaml --
output_validator_args: float_tolerance 0.1
`, "secret/1", "secret/2", "secret/3"), `
2025-09 scoring=true max=100 time=0s checker=[float_tolerance 0.1]
secret/1 hidden
secret/2 hidden
secret/3 hidden
[] sum  continue
[secret] sum  continue accept=33.333333333333336 reject=0 max=100
`},
		{"2023-07-draft with legacy keys", with(`
-- problem.yaml --
problem_format_version: 2023-07-draft
type: scoring
-- data/testdata.yaml --
output_validator_flags: case_sensitive
-- data/secret/testdata.yaml --
accept_score: 10
on_reject: continue
`, "secret/1", "secret/2"), `
2023-07-draft scoring=true max=20 time=0s checker=[case_sensitive]
secret/1 hidden
secret/2 hidden
[] sum worst break
[secret] sum worst continue accept=10
`},
		{"names that are not the format's", with(``, "secret/1", "secret/.hidden", "secret/a b", "secret/-x", "secret/ü"), `
legacy scoring=false max=1 time=0s checker=[]
secret/1 hidden
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(tt.files)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), summary(p)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	yaml := func(text string) string { return smallest + "-- problem.yaml --\n" + text + "\n" }
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
		{"unbounded", smallest + scoring(V2025, "-- data/secret/test_group.yaml --\nmax_score: unbounded\n"), "data/secret/test_group.yaml: max_score: is missing"},
		{"aggregations", scoring(V2025, "-- data/secret/test_group.yaml --\nscore_aggregation: pass-fail\n-- data/secret/g/test_group.yaml --\nscore_aggregation: sum\n-- data/secret/g/1.in --\n-- data/secret/g/1.ans --\n"), "data/secret/g/test_group.yaml: score_aggregation: want pass-fail"},
		{"score of sample", smallest + scoring(V2025, "-- data/sample/test_group.yaml --\nmax_score: 1\n-- data/sample/1.in --\n-- data/sample/1.ans --\n"), "data/sample/test_group.yaml: max_score: is not for sample"},
		{"require_pass of a later one", scoring(V2025, "-- data/secret/a/test_group.yaml --\nmax_score: 1\nrequire_pass: secret/b\n-- data/secret/a/1.in --\n-- data/secret/a/1.ans --\n-- data/secret/b/test_group.yaml --\nmax_score: 1\n-- data/secret/b/1.in --\n-- data/secret/b/1.ans --\n"), "data: groups[2].require_pass[0]: is not a group before this one"},
		{"submissions.yaml, verdict", smallest + "-- submissions/submissions.yaml --\na: {permitted: [OK]}\n", "submissions/submissions.yaml: a.permitted: want a list of AC, WA, TLE and RTE (got OK)"},
		{"submissions.yaml, brace", smallest + "-- submissions/submissions.yaml --\n'{a': {}\n", "submissions/submissions.yaml: {a: has a brace"},
		{"submissions.yaml, braces", smallest + "-- submissions/submissions.yaml --\n'" + strings.Repeat("{a,b}", 12) + "': {}\n", "submissions/submissions.yaml: {a,b}"},
		{"submissions.yaml, message", smallest + "-- submissions/submissions.yaml --\na: {message: x}\n", "submissions/submissions.yaml: a.message: messages of custom output validators"},
		{"submissions.yaml, key", smallest + "-- submissions/submissions.yaml --\na: {secret: {allowed: [AC]}}\n", "submissions/submissions.yaml: a.secret.allowed: there is no such key"},
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

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "type: scoring", "a: &a [*a]\nb: *a", "constants: {a: {value: 1, b: 2}}", "? {a: b}\n: c", "limits: {memory: 0x7fffffff}", "<<: {type: scoring}"} {
		f.Add(seed, "accept_score: 1\ngrader_flags: [min, ignore_sample]", "args: [a]", "accepted: {permitted: [AC]}")
		f.Add(seed, "max_score: 10\nscore_aggregation: sum\nrequire_pass: [sample]", "hint: x", "'{a,b}*': {secret: {score: [1, 2]}}")
	}
	f.Fuzz(func(t *testing.T, problem, group, test, submissions string) {
		files := with("", "sample/1", "secret/1", "secret/2")
		for name, text := range map[string]string{
			"problem.yaml": problem, "data/secret/test_group.yaml": group, "data/secret/1.yaml": test, "submissions/submissions.yaml": submissions,
			"submissions/accepted/a.py": "", "include/default/a": "",
		} {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		p, err := Read(files)
		if err != nil {
			var fault *Error
			if !errors.As(err, &fault) {
				t.Fatalf("no fault of the package: %v", err)
			}
			return
		}
		spec, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: p.Submissions[0].Files}, Run{Time: time.Second})
		if err != nil {
			return // the language is not allowed
		}
		if errs := job.CheckGrading(spec.Tests, spec.Groups, spec.Checker); len(errs) > 0 {
			t.Errorf("a package makes a job that is not valid: %v", errs)
		}
	})
}
