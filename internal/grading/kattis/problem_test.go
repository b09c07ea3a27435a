package kattis

import (
	"errors"
	"fmt"
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
		if g.CheckerScore != "" {
			s += " scores=" + g.CheckerScore
		}
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
		{"2025-09, pass or fail, folders in folders", with(`
-- problem.yaml --
problem_format_version: 2025-09
-- data/secret/g1/d/test_group.yaml --
args: [-v]
`, "secret/g1/1", "secret/g1/d/2", "secret/z"), `
2025-09 scoring=false max=3 time=0s checker=[]
secret/g1/1 hidden
secret/g1/d/2 hidden ["-v"]
secret/z hidden
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
