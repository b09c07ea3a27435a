package kattis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

// TestFoldersOfGroups: in the new formats the tests in folders of a group are the group's own, and count as those beside
// the folders. Legacy folders are groups themselves.
func TestFoldersOfGroups(t *testing.T) {
	t.Parallel()
	const newer = "-- data/secret/test_group.yaml --\nmax_score: 30\n-- data/secret/g1/test_group.yaml --\nmax_score: 30\nargs: [-v]\nscore_aggregation: "
	const legacy = "-- data/secret/testdata.yaml --\naccept_score: 30\ngrader_flags: "
	for _, tt := range []struct {
		name, version, groups string
		verdicts              string // of g1/1, g1/d/2, g1/d/e/3 and g1/z
		want                  string // the whole, then the groups
	}{
		{"sum", V2025, newer + "sum", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30"},
		{"min", V2025, newer + "min", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30"},
		{"pass-fail", V2025, newer + "pass-fail", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30"},
		{"sum, draft", Draft2023, newer + "sum", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30"},
		{"min, draft", Draft2023, newer + "min", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30"},
		{"sum, one in a folder fails", V2025, newer + "sum", "ac wa ac ac", "wrong_answer 22.5/30, secret 22.5/30, secret/g1 22.5/30"},
		{"sum, one in a folder of a folder fails", V2025, newer + "sum", "ac ac wa ac", "wrong_answer 22.5/30, secret 22.5/30, secret/g1 22.5/30"},
		{"sum, all in folders fail", V2025, newer + "sum", "ac wa wa ac", "wrong_answer 15/30, secret 15/30, secret/g1 15/30"},
		{"min, one in a folder fails", V2025, newer + "min", "ac wa - -", "wrong_answer 0/30, secret 0/30, secret/g1 0/30"},
		{"pass-fail, one in a folder fails", V2025, newer + "pass-fail", "ac wa - -", "wrong_answer 0/30, secret 0/30, secret/g1 0/30"},
		{"legacy", Legacy, legacy + "min", "ac ac ac ac", "accepted 30/30, secret 30/30, secret/g1 30/30, secret/g1/d 30/30, secret/g1/d/e 30/30"},
		{"draft with legacy keys", Draft2023, legacy + "sum", "ac ac ac ac", "accepted 120/120, secret 120/120, secret/g1 120/120, secret/g1/d 60/60, secret/g1/d/e 30/30"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(with("-- problem.yaml --\nproblem_format_version: "+tt.version+"\ntype: scoring\n"+tt.groups+"\n",
				"secret/g1/1", "secret/g1/d/2", "secret/g1/d/e/3", "secret/g1/z"))
			if err != nil {
				t.Fatal(err)
			}
			comesTo(t, p, tt.verdicts, tt.want)
		})
	}
}

// comesTo judges tests that come to these verdicts, with - for one that is not to be run and, behind a verdict, a validator's own score, and wants that of the whole and of
// its groups.
func comesTo(t *testing.T, p *Problem, verdicts, want string) {
	t.Helper()
	j, err := p.Judgement()
	if err != nil {
		t.Fatal(err)
	}
	for i, said := range strings.Fields(verdicts) {
		if j.Wanted(i) != (said != "-") {
			t.Errorf("%s: got wanted %t, want %t", p.Tests[i].Name, j.Wanted(i), said != "-")
		}
		word, number, scored := strings.Cut(said, ":")
		var score *float64
		if x, err := strconv.ParseFloat(number, 64); scored {
			if err != nil {
				t.Fatal(err)
			}
			score = &x
		}
		if verdict := map[string]job.Verdict{"ac": job.Accepted, "wa": job.WrongAnswer, "tle": job.TestTimedOut}[word]; verdict != "" {
			j.Set(i, verdict, score)
		}
	}
	whole := j.Whole()
	got := fmt.Sprintf("%s %v/%v", whole.Verdict, whole.Score, whole.MaxScore)
	for _, g := range whole.Groups {
		got += fmt.Sprintf(", %s %v/%v", g.Name, g.Score, g.MaxScore)
	}
	if got != want {
		t.Errorf("got  %s\nwant %s\n%s", got, want, summary(p))
	}
}

// TestScoresOfGroups: what groups in secret, scores of a validator and, in older packages without scores, the keys that end a group come to.
func TestScoresOfGroups(t *testing.T) {
	t.Parallel()
	const two = "-- data/secret/a/test_group.yaml --\nmax_score: 50\nscore_aggregation: sum\n-- data/secret/b/test_group.yaml --\nmax_score: 50\nscore_aggregation: sum\n"
	for _, tt := range []struct{ name, text, verdicts, want string }{
		{"min of sums", "problem_format_version: 2025-09\ntype: scoring\n-- data/secret/test_group.yaml --\nmax_score: 50\nscore_aggregation: min\n" + two, "ac wa wa wa", "wrong_answer 0/50, secret 0/50, secret/a 25/50, secret/b 0/50"},
		{"min of sums, the least", "problem_format_version: 2025-09\ntype: scoring\n-- data/secret/test_group.yaml --\nmax_score: 50\nscore_aggregation: min\n" + two, "ac wa ac ac", "wrong_answer 25/50, secret 25/50, secret/a 25/50, secret/b 50/50"},
		{"a validator gives a test more than its part", "problem_format_version: 2025-09\ntype: scoring\n-- output_validator/v.py --\n" + two, "ac:50 wa ac:20 ac", "wrong_answer 70/100, secret 70/100, secret/a 25/50, secret/b 45/50"},
		{"older, the first ends it", "", "tle - - -", "timed_out 0/4, secret 0/4, secret/a 0/2, secret/b 0/2"},
		{"older, none ends it", "-- data/testdata.yaml --\non_reject: continue\n", "wa ac tle ac", "timed_out 2/4, secret 2/4, secret/a 1/2, secret/b 1/2"},
		{"older, any will do", "-- data/testdata.yaml --\non_reject: continue\n-- data/secret/testdata.yaml --\ngrader_flags: accept_if_any_accepted\n", "wa wa wa ac", "accepted 1/4, secret 1/4, secret/a 0/2, secret/b 1/2"},
		{"older, with keys of scores", "-- data/testdata.yaml --\non_reject: continue\naccept_score: 7\nrange: 0 8\n", "ac ac wa ac", "wrong_answer 3/4, secret 3/4, secret/a 2/2, secret/b 1/2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Read(with("-- problem.yaml --\n"+tt.text, "secret/a/1", "secret/a/2", "secret/b/1", "secret/b/2"))
			if err != nil {
				t.Fatal(err)
			}
			comesTo(t, p, tt.verdicts, tt.want)
			if got := grading.Scoring(nil, p.Groups); got != p.Scoring {
				t.Errorf("its groups are about points: %t, want %t", got, p.Scoring)
			}
		})
	}
}

// TestScoresThatAreTaken: which scores of a package's own validator the tests of each group take, in the job of a submission and in one
// that runs all tests. Samples give none, whatever a validator says.
func TestScoresThatAreTaken(t *testing.T) {
	t.Parallel()
	const newer, validator = "problem_format_version: 2025-09\ntype: scoring\n", "-- output_validator/v.py --\n"
	const unbounded = "-- data/secret/test_group.yaml --\nmax_score: unbounded\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a sum", newer + validator + "-- data/secret/a/test_group.yaml --\nmax_score: 9\nscore_aggregation: sum\n", "secret/a=within"},
		{"a least", newer + validator + "-- data/secret/a/test_group.yaml --\nmax_score: 9\nscore_aggregation: min\n", "secret/a=within"},
		{"all or nothing", newer + validator + "-- data/secret/a/test_group.yaml --\nmax_score: 9\n", "secret/a=none"},
		{"without a largest score", newer + validator + unbounded + "-- data/secret/a/test_group.yaml --\nscore_aggregation: min\n", "secret/a=required"},
		{"no validator", newer + "-- data/secret/a/test_group.yaml --\nmax_score: 9\n", ""},
		{"older, with scores", "type: scoring\nvalidation: custom score\n" + validator, "=required sample=required secret=required secret/a=required"},
		{"older, without", "type: scoring\nvalidation: custom\n" + validator, ""},
		{"older, pass-fail", "validation: custom score\n" + validator, ""},
	} {
		p, err := Read(with("-- problem.yaml --\n"+tt.text, "sample/1", "secret/a/1", "secret/a/2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, all := range []bool{false, true} {
			spec, err := p.Spec(Program{Runtime: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, Validator: "c", All: all})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range spec.Groups {
				if g.CheckerScore != "" {
					got = append(got, g.Name+"="+g.CheckerScore)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s, all tests %t: got %q, want %q", tt.name, all, got, tt.want)
			}
			if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

// TestPartialWithoutLargestScore: where a validator gives what it likes, a submission that is to have less than the largest score may have any.
func TestPartialWithoutLargestScore(t *testing.T) {
	t.Parallel()
	for most, want := range map[string]string{"+inf": "", "8": "has the largest score, 8; partially_accepted/ expects less"} {
		p, err := Read(with("-- problem.yaml --\ntype: scoring\nvalidation: custom score\n-- output_validators/v.py --\n-- data/testdata.yaml --\nrange: 0 "+most+"\n", "secret/1", "secret/2"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Judgement()
		if err != nil {
			t.Fatal(err)
		}
		four := 4.0
		j.Set(0, job.Accepted, &four)
		j.Set(1, job.Accepted, &four)
		got := ""
		if err := (Expectation{Source: "partially_accepted/", Partial: true}).Check(p, j.Whole()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("up to %s: got %q, want %q", most, got, want)
		}
	}
}

// TestFoldersKeepTheirNames: a test that belongs to a group above its folder keeps its name, its place, its hint and what
// it has from the group's file, and the job made of it is valid. Samples stay in their folders.
func TestFoldersKeepTheirNames(t *testing.T) {
	t.Parallel()
	p, err := Read(with(`
-- problem.yaml --
problem_format_version: 2025-09
type: scoring
-- data/secret/g1/test_group.yaml --
max_score: 40
args: [-v]
full_feedback: true
-- data/secret/g1/d/2.yaml --
hint: use long
-- data/secret/g2/test_group.yaml --
max_score: 60
require_pass: secret/g1
`, "sample/1", "sample/more/2", "secret/g1/1", "secret/g1/d/2", "secret/g1/z", "secret/g2/d/1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `2025-09 scoring=true max=100 time=0s checker=[]
sample/1
sample/more/2
secret/g1/1 ["-v"]
secret/g1/d/2 in secret/g1 ["-v"] hint=use long
secret/g1/z ["-v"]
secret/g2/d/1 in secret/g2 hidden
[] sum  continue
[sample]   continue accept=0 reject=0 max=0
[secret] sum  continue accept=0 reject=0 max=100
[secret/g1] pass_fail  break accept=0 reject=0 max=40
[secret/g2] pass_fail  break accept=0 reject=0 max=60 after [secret/g1]
`
	if d := cmp.Diff(want, summary(p)); d != "" {
		t.Error(d)
	}
	for _, all := range []bool{false, true} {
		spec, err := p.Spec(Program{Runtime: "c", Language: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second, All: all})
		if err != nil {
			t.Fatal(err)
		}
		if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
			t.Errorf("all %t: %v", all, err)
		}
	}
	stored, err := p.Stored(Run{Time: time.Second}, func(string) (string, error) { return "c", nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := stored.Check(); err != nil {
		t.Error(err)
	}
}
