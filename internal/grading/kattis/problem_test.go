package kattis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/grading"
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

// TestValidator: where a package's own validator may be, and what it becomes.
func TestValidator(t *testing.T) {
	t.Parallel()
	legacy := smallest + "-- problem.yaml --\nvalidation: custom score\nvalidator_flags: a\nlimits: {validation_time: 5, validation_memory: 300}\n"
	newer := smallest + "-- problem.yaml --\nproblem_format_version: 2025-09\nconstants: {N: 7}\n"
	tests := []struct {
		name, text string
		want       string // language, entrypoint, files, compile command; "": the default checker
	}{
		{"none", smallest, ""},
		{"not used", smallest + "-- output_validators/v.py --\n", ""},
		{"default, by its word", newer + "validation: default\n-- output_validator/v.py --\n", ""},
		{"a file", legacy + "-- output_validators/v.py --\n", "output_validators python3 v.py [v.py]"},
		{"a folder", legacy + "-- output_validators/check/v.py --\n-- output_validators/check/a.py --\n", "output_validators/check python3 a.py [a.py v.py]"},
		{"a main file", newer + "-- output_validator/a.py --\n-- output_validator/__main__.py --\n", "output_validator python3 __main__.py [__main__.py a.py]"},
		{"a source with a header", newer + "-- output_validator/v.cc --\n-- output_validator/testlib.h --\n", "output_validator cpp v.cc [testlib.h v.cc]"},
		{"the other name", newer + "-- output_validators/v.c --\n", "output_validators c v.c [v.c]"},
		{"sources and a folder", newer + "-- output_validator/v.c --\n-- output_validator/lib/l.c --\n", "output_validator c lib/l.c [lib/l.c v.c] gcc -O2 -o /tmp/main lib/l.c v.c -lm"},
		{"constants", newer + "-- output_validator/v.py --\nprint({{N}})\n", "output_validator python3 v.py [v.py]"},
		{"a build script", legacy + "-- output_validators/check/build --\n-- output_validators/check/v.py --\n", "output_validators/check build and run scripts  [build v.py] chmod +x build && ./build && chmod +x run"},
		{"a run script", newer + "-- output_validator/run --\n-- output_validator/lib/build --\n", "output_validator build and run scripts  [lib/build run] chmod +x run"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(pack(tt.text + "-- data/secret/test_group.yaml --\noutput_validator_args: [case_sensitive]\n"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "its runtime"})
			if err != nil {
				t.Fatal(err)
			}
			v, c := p.Validator, spec.Checker
			if tt.want == "" {
				if v != nil || c.Kind != job.CheckDefault || c.Program != nil || spec.Tests[0].CheckerArgs != nil {
					t.Fatalf("got the validator %+v, checker %+v", v, c)
				}
				return
			}
			got := fmt.Sprint(v.Path, " ", v.Language, " ", v.Entrypoint, " ", namesOf(v.Files))
			if v.Commands != nil {
				got += " " + v.Commands.Compile
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if c.Kind != job.CheckKattis || c.Program.Runtime != "its runtime" || !slices.Equal(spec.Tests[0].CheckerArgs, []string{"case_sensitive"}) || spec.SpecVersion != 6 {
				t.Errorf("got %+v, %+v", c, spec.Tests[0])
			}
			if tt.name == "a file" && (c.Program.Limits.WallMS != 5000 || c.Program.Limits.MemoryMB != 300 || !slices.Equal(c.Args, []string{"a"})) {
				t.Errorf("got the limits %+v, arguments %q", c.Program.Limits, c.Args)
			}
			if tt.name == "constants" && v.Files[0].Content != "print(7)\n" {
				t.Errorf("got %q", v.Files[0].Content)
			}
			spec.Runtime, spec.Checker.Program.Runtime = "c", "c"
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPasses: what makes a problem multi-pass, and how long each pass may take.
func TestPasses(t *testing.T) {
	t.Parallel()
	const newer = "problem_format_version: 2025-09\n"
	for _, tt := range []struct {
		name, yaml string
		passes     int   // of the checker; 0: it is not multi-pass
		wallMS     int64 // of a pass
	}{
		{"2025-09", newer + "type: multi-pass", 2, 21_000},
		{"2025-09, with a list", newer + "type: [scoring, multi-pass]\nlimits: {validation_passes: 5}", 5, 21_000},
		{"2023-07", "problem_format_version: 2023-07-draft\ntype: pass-fail multi-pass", 2, 21_000},
		{"legacy", "validation: custom multi-pass\nlimits: {validation_passes: 3}", 3, 21_000},
		{"with little time for each", newer + "type: multi-pass\nlimits: {validation_passes: 100}", 100, 11_250},
		{"one", newer + "type: multi-pass\nlimits: {validation_passes: 1}", 0, 21_000},
		{"none", newer + "limits: {validation_passes: 5}", 0, 21_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := "-- output_validator/v.py --\n"
			p, err := Read(with("-- problem.yaml --\n"+tt.yaml+"\n"+dir, "secret/1", "secret/2"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: 10 * time.Second, Validator: "c"})
			if err != nil {
				t.Fatal(err)
			}
			version := 6
			if tt.passes > 1 {
				version = 9
			}
			if spec.Checker.Passes != tt.passes || spec.Limits.WallMS != tt.wallMS || spec.SpecVersion != version {
				t.Errorf("got %d passes of %d ms, version %d; want %d of %d, %d", spec.Checker.Passes, spec.Limits.WallMS, spec.SpecVersion, tt.passes, tt.wallMS, version)
			}
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRoom: with however many tests, a job has room for its checks, where the time limit is what a problem without one is measured by, or less.
func TestRoom(t *testing.T) {
	t.Parallel()
	const newer = "-- problem.yaml --\nproblem_format_version: 2025-09\n"
	const validator = "-- output_validator/v.py --\n"
	for name, text := range map[string]string{
		"no validator":             newer,
		"a validator":              newer + validator,
		"a quick validator":        newer + "limits: {validation_time: 1}\n" + validator,
		"a validator of no hurry":  newer + "limits: {validation_time: 300}\n" + validator,
		"an interactor":            newer + "type: interactive\n" + validator,
		"a validator of passes":    newer + "type: multi-pass\n" + validator,
		"a validator, many passes": newer + "type: multi-pass\nlimits: {validation_passes: 4}\n" + validator,
	} {
		p, err := Read(with(text, "secret/1"))
		if err != nil {
			t.Fatal(name, err)
		}
		for n := 1; n <= 500; n++ {
			test := p.Tests[0]
			if test.Name = fmt.Sprintf("secret/%d", n); n > 1 {
				p.Tests = append(p.Tests, test)
			}
			if n > 100 && n%50 > 0 {
				continue
			}
			most := min(30*time.Second, p.Room())
			for _, limit := range []time.Duration{most, most / 2, most / 4, 100 * time.Millisecond} {
				spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: limit, Validator: "c"})
				if err != nil {
					t.Fatal(name, err)
				}
				if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
					t.Fatalf("%s, %d tests of %s: got %v", name, n, limit, err)
				}
			}
		}
	}
}

// TestInteractive: what makes a problem interactive, in each version of the format.
func TestInteractive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, dir string }{
		{"2025-09", "problem_format_version: 2025-09\ntype: interactive", "output_validator/v.py"},
		{"2025-09, with a list", "problem_format_version: 2025-09\ntype: [scoring, interactive]", "output_validator/v.py"},
		{"2023-07", "problem_format_version: 2023-07-draft\ntype: pass-fail interactive", "output_validators/v.py"},
		{"legacy", "validation: custom interactive", "output_validators/talk/v.py"},
		{"legacy, with scores", "type: scoring\nvalidation: custom score interactive", "output_validators/v.py"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(with("-- problem.yaml --\n"+tt.yaml+"\nlimits: {validation_output: 2}\n-- "+tt.dir+" --\n", "secret/1", "secret/2"))
			if err != nil {
				t.Fatal(err)
			}
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "c"})
			if err != nil {
				t.Fatal(err)
			}
			if c := spec.Checker; !p.Interactive || !c.Interactive || c.Passes != 0 || c.Program.Limits.OutputKB != 2048 || spec.Limits.OutputKB != 8192 || spec.SpecVersion != 10 {
				t.Errorf("got %v, %+v, %+v, %+v, version %d", p.Interactive, c, c.Program, spec.Limits, spec.SpecVersion)
			}
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestValidatedGroups: with a validator of its own, a group need not say how much it gives. A score that the validator
// gives in sample counts nowhere.
func TestValidatedGroups(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"problem_format_version: 2025-09\ntype: scoring\n-- output_validator/v.py --\n-- data/secret/test_group.yaml --\nmax_score: unbounded\n-- data/secret/a/test_group.yaml --\nscore_aggregation: sum\n",
		"type: scoring\nvalidation: custom score\n-- output_validators/v.py --\n-- data/testdata.yaml --\ngrader_flags: ignore_sample\n",
	} {
		p, err := Read(with("-- problem.yaml --\n"+text, "sample/1", "secret/a/1", "secret/a/2"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Judgement()
		if err != nil {
			t.Fatal(err)
		}
		twelve := 12.0
		for i := range p.Tests {
			j.Set(i, job.Accepted, &twelve)
		}
		if got := j.Whole().Score; got != 24 {
			t.Errorf("got %v, want 24:\n%s", got, summary(p))
		}
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
		{"interactive, and no validator", yaml("problem_format_version: 2025-09\ntype: pass-fail interactive"), "problem.yaml: type: is interactive, and output_validators/ has no validator that is used"},
		{"interactive, legacy, and no validator", yaml("validation: custom interactive"), "problem.yaml: validation: is custom, and output_validators/ has no validator"},
		{"interactive, legacy, and default", yaml("validation: default interactive") + "-- output_validators/v.py --\n", "problem.yaml: validation: is interactive, and output_validators/ has no validator that is used"},
		{"interactive, and long outputs", yaml("validation: custom interactive\nlimits: {output: 9}") + "-- output_validators/v.py --\n", "problem.yaml: limits: interactive problems with more than 8 MiB of output, or of validation_output, are not supported yet"},
		{"interactive, and a long validation_output", yaml("validation: custom interactive\nlimits: {validation_output: 9}") + "-- output_validators/v.py --\n", "problem.yaml: limits: interactive problems"},
		{"multi-pass, and no validator", yaml("problem_format_version: 2025-09\ntype: multi-pass"), "problem.yaml: type: is multi-pass, and output_validators/ has no validator that is used"},
		{"multi-pass, legacy, and default", yaml("validation: default multi-pass") + "-- output_validators/v.py --\n", "problem.yaml: validation: is multi-pass, and output_validators/ has no validator that is used"},
		{"multi-pass and interactive", yaml("problem_format_version: 2025-09\ntype: [multi-pass, interactive]") + "-- output_validator/v.py --\n", "problem.yaml: type: interactive problems that are multi-pass, too, are not supported yet"},
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

func TestSubmissions(t *testing.T) {
	t.Parallel()
	p, err := Read(pack(smallest + `
-- problem.yaml --
problem_format_version: 2025-09
-- submissions/submissions.yaml --
accepted: {use_for_time_limit: false}
"wrong_answer/{a,b}*.py":
  language: python2
  secret/1: {permitted: [WA], required: [WA]}
"*/slow.py": {use_for_time_limit: upper}
-- submissions/accepted/x.py --
print({{n}})
-- submissions/accepted/dir/main.py --
-- submissions/accepted/dir/util.py --
-- submissions/time_limit_exceeded/slow.py --
-- submissions/wrong_answer/a1.py --
-- submissions/wrong_answer/c.py --
-- submissions/mine/a.c --
// @EXPECTED_RESULTS@: WRONG-ANSWER, RUN-ERROR
-- submissions/mine/b.c --
`))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, s := range p.Submissions {
		got += s.Path + " " + s.Language + " " + strings.Join(namesOf(s.Files), ",")
		for _, e := range s.Expect {
			got += fmt.Sprintf(" | %s %s %s %s %v low=%t up=%t", e.Source, join(e.Whole), join(e.Permitted), join(e.Required), e.Tests, e.Lower, e.Upper)
		}
		got += "\n"
	}
	want := `accepted/dir python3 main.py,util.py | accepted  accepted  [] low=false up=false
accepted/x.py python3 x.py | accepted  accepted  [] low=false up=false
mine/a.c c a.c | @EXPECTED_RESULTS@ wrong_answer, run_time_error, out_of_memory   [] low=false up=false
mine/b.c c b.c
time_limit_exceeded/slow.py python3 slow.py | */slow.py    [] low=false up=true | time_limit_exceeded/  accepted, timed_out timed_out [] low=false up=true
wrong_answer/a1.py python2 a1.py | wrong_answer/  accepted, wrong_answer wrong_answer [] low=true up=false | wrong_answer/{a,b}*.py    [] low=false up=false | wrong_answer/{a,b}*.py, secret/1  wrong_answer wrong_answer [secret/1] low=true up=false
wrong_answer/c.py python3 c.py | wrong_answer/  accepted, wrong_answer wrong_answer [] low=true up=false
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		version, folder string
		verdicts        []job.Verdict // of sample/1, secret/1
		want            string        // "" for as expected
	}{
		{V2025, "accepted", []job.Verdict{job.Accepted, job.Accepted}, ""},
		{V2025, "accepted", []job.Verdict{job.Accepted, job.WrongAnswer}, "is wrong_answer on secret/1; accepted/ permits accepted"},
		{V2025, "wrong_answer", []job.Verdict{job.Accepted, job.WrongAnswer}, ""},
		{V2025, "wrong_answer", []job.Verdict{job.TestTimedOut, job.WrongAnswer}, "is timed_out on sample/1"},
		{V2025, "wrong_answer", []job.Verdict{job.Accepted, job.Accepted}, "comes to wrong_answer on no test"},
		{V2025, "run_time_error", []job.Verdict{job.Accepted, job.TestOutOfMemory}, ""},
		{V2025, "brute_force", []job.Verdict{job.RunTimeError, job.TestTimedOut}, ""},
		{V2025, "brute_force", []job.Verdict{job.WrongAnswer, job.TestTimedOut}, "is wrong_answer on sample/1"},
		{V2025, "rejected", []job.Verdict{job.Accepted, job.Accepted}, "comes to run_time_error"},
		{Legacy, "wrong_answer", []job.Verdict{job.WrongAnswer, job.TestTimedOut}, ""},
		{Legacy, "wrong_answer", []job.Verdict{job.TestTimedOut, job.WrongAnswer}, "is timed_out; wrong_answer/ expects wrong_answer"},
		{Legacy, "partially_accepted", []job.Verdict{job.Accepted, job.Accepted}, "has the largest score, 2"},
		{Legacy, "accepted", []job.Verdict{job.Accepted, job.JudgeError}, "is judge_error"},
	}
	for _, tt := range tests {
		p, err := Read(with("-- problem.yaml --\nproblem_format_version: "+tt.version+"\n-- submissions/"+tt.folder+"/a.py --\n", "sample/1", "secret/1"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Judgement()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tt.verdicts {
			j.Set(i, v, nil)
		}
		w := j.Whole()
		if tt.version == V2025 { // every test is looked at
			for i, v := range tt.verdicts {
				w.Tests[i] = grading.Scored{Verdict: v}
			}
		}
		err = p.Submissions[0].Expect[0].Check(p, w)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s %s, %v: got %v, want %q", tt.version, tt.folder, tt.verdicts, err, tt.want)
		}
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	p, err := Read(pack(`
-- problem.yaml --
name: Sum
limits: {memory: 512, output: 1}
constants: {helper: twice}
-- data/sample/1.in --
1 2
-- data/sample/1.ans --
3
-- data/secret/1.in --
4 5
-- data/secret/1.ans --
9
-- include/python3/main.py --
from solution import sum
def {{helper}}(): {{other}}
-- include/c/driver.c --
int main(void) {}
-- include/default/README --
`))
	if err != nil {
		t.Fatal(err)
	}
	solution := []job.File{{Name: "solution.py", Content: "def sum(): pass"}, {Name: "main.py", Content: "print('mine')"}}
	spec, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: solution}, Run{Time: 2 * time.Second, Uploads: map[string]string{"data/secret/1.in": strings.Repeat("a", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{
		SpecVersion: 5, Runtime: "python", Entrypoint: "main.py",
		Files:  []job.File{{Name: "solution.py", Content: "def sum(): pass"}, {Name: "main.py", Content: "from solution import sum\ndef twice(): {{other}}\n"}},
		Limits: job.Limits{CPUMS: 2000, WallMS: 5000, CompileWallMS: 60_000, MemoryMB: 512, OutputKB: 1024}, Checker: &job.Checker{Kind: "default"},
		Tests: []job.Test{
			{Name: "sample/1", Group: "sample", Stdin: "1 2\n", Answer: "3\n"},
			{Name: "secret/1", Group: "secret", StdinUpload: strings.Repeat("a", 64), Answer: "9\n", Hidden: true},
		},
	}
	if d := cmp.Diff(want, spec); d != "" {
		t.Error(d)
	}
	if err := spec.Check([]string{"python"}, nil, job.DefaultMaximums); err != nil {
		t.Errorf("what is made of a package is no job: %v", err)
	}

	all, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: solution}, Run{Time: time.Second, All: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Groups; len(got) != 3 || slices.ContainsFunc(got, func(g job.Group) bool { return g.OnReject != "continue" }) {
		t.Errorf("not every test is run: %+v", got)
	}

	for _, tt := range []struct {
		program Program
		want    string
	}{
		{Program{Language: "c", Files: []job.File{{Name: "a b.c"}}}, "the name \"a b.c\": want letters"},
		{Program{Language: "java", Files: []job.File{{Name: "a.java", Content: strings.Repeat("a", 128<<10+1)}}}, "the submission has 131073 bytes; the package allows 131072"},
		{Program{Language: "java", Files: []job.File{{Name: "a.java"}}, Entrypoint: "b"}, "the entrypoint b is none of the files"},
		{Program{Language: "java", Files: []job.File{{Name: "../a.java"}}}, "the name \"../a.java\" is not a plain path"},
	} {
		if _, err := p.Spec(tt.program, Run{Time: time.Second}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.program.Files[0].Name, err, tt.want)
		}
	}
}

// TestTogether: sources in C and C++ are compiled together, those of include/ too; headers and those in other languages
// are not, nor are those of languages whose compiler finds them by itself.
func TestTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, include, language string
		files                   []string
		want                    string // the compile command; "": the runtime's own
	}{
		{"one source", "", "c", []string{"a.c", "a.h"}, ""},
		{"a function and its grader", "-- include/c/grader.c --\n-- include/c/f.h --\n", "c", []string{"f.c"}, "gcc -O2 -o /tmp/main f.c grader.c -lm"},
		{"the grader of another language", "-- include/cpp/grader.cpp --\n", "c", []string{"f.c"}, ""},
		{"a grader over one's own", "-- include/cpp/grader.cpp --\n", "cpp", []string{"grader.cpp"}, ""},
		{"several endings and folders", "", "cpp", []string{"b.cc", "lib/a.cpp", "c.c"}, "g++ -O2 -o /tmp/main b.cc lib/a.cpp -lm"},
		{"Java", "-- include/java/Main.java --\n", "java", []string{"A.java"}, ""},
		{"a name that no package has", "", "c", []string{"it's.c"}, ""},
	} {
		p, err := Read(pack(smallest + tt.include))
		if err != nil {
			t.Fatal(err)
		}
		program := Program{Runtime: "c", Language: tt.language}
		for _, f := range tt.files {
			program.Files = append(program.Files, job.File{Name: f})
		}
		spec, err := p.Spec(program, Run{Time: time.Second})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := ""
		if spec.Commands != nil {
			got = spec.Commands.Compile
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestTestFlags: the default checker has its arguments from problem.yaml, and each test has its own after those where
// they differ. Only then a worker has to know the newest version.
func TestTestFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       string // the checker's, those of each test, and the version
	}{
		{"none", "", "[] 1[] 2[] 5"},
		{"the same", "-- data/testdata.yaml --\noutput_validator_flags: case_sensitive\n", "[float_tolerance 1e-3 case_sensitive] 1[] 2[] 5"},
		{"of a folder", "-- data/secret/b/testdata.yaml --\noutput_validator_flags: float_tolerance 1\n", "[float_tolerance 1e-3] 1[] 2[float_tolerance 1] 9"},
		{"of a test", "-- data/testdata.yaml --\noutput_validator_flags: case_sensitive\n-- data/secret/b/2.yaml --\noutput_validator_args: []\n", "[float_tolerance 1e-3] 1[case_sensitive] 2[] 9"},
	} {
		flags := "-- problem.yaml --\nvalidator_flags: float_tolerance 1e-3\n"
		if tt.name == "none" {
			flags = ""
		}
		p, err := Read(with(flags+tt.text, "secret/a/1", "secret/b/2"))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		spec, err := p.Spec(Program{Runtime: "c", Language: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(spec.Checker.Args, " 1", spec.Tests[0].CheckerArgs, " 2", spec.Tests[1].CheckerArgs, " ", spec.SpecVersion)
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestEntrypoint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		files    []string
		language string
		want     string
	}{
		{[]string{"b.py", "a.py"}, "python3", "a.py"},
		{[]string{"a.py", "main.py"}, "python3", "main.py"},
		{[]string{"a.py", "main.py", "__main__.py"}, "python3", "__main__.py"},
		{[]string{"data.txt", "z.js"}, "javascript", "z.js"},
		{[]string{"A.java", "Main.java"}, "java", "Main.java"},
		{[]string{"x.h", "y.cc"}, "cpp", "y.cc"},
		{[]string{"x.c", "x.h", "a.py", "b.c"}, "c", "b.c"},
		{[]string{"README"}, "", "README"},
	}
	for _, tt := range tests {
		if got := LanguageOf(tt.files); got != tt.language {
			t.Errorf("%v: got language %q, want %q", tt.files, got, tt.language)
		}
		if got := entrypointOf(tt.language, tt.files); got != tt.want {
			t.Errorf("%v: got entrypoint %q, want %q", tt.files, got, tt.want)
		}
	}
}

func TestTiming(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		timing        Timing
		slowest, want int
	}{
		{timingOf(Legacy), 10, 1000},
		{timingOf(Legacy), 200, 1000},
		{timingOf(Legacy), 201, 2000},
		{timingOf(V2025), 500, 1000},
		{timingOf(V2025), 501, 2000},
		{Timing{2, 1.5, 0.25}, 300, 750},
		{Timing{2, 1.5, 0.1}, 150, 300},
	}
	for _, tt := range tests {
		if got := tt.timing.Limit(ms(tt.slowest)); got != ms(tt.want) {
			t.Errorf("%+v, slowest %d ms: got %s, want %d ms", tt.timing, tt.slowest, got, tt.want)
		}
	}
	if err := timingOf(V2025).CheckTLE(ms(1000), ms(1500)); err != nil {
		t.Error(err)
	}
	if err := timingOf(V2025).CheckTLE(ms(1000), ms(1499)); err == nil {
		t.Error("1.499 s are too slow for a limit of 1 s times 1.5")
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
