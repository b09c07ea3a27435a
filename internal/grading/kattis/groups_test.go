package kattis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			j, err := p.Judgement()
			if err != nil {
				t.Fatal(err)
			}
			for i, word := range strings.Fields(tt.verdicts) {
				if j.Wanted(i) != (word != "-") {
					t.Errorf("%s: got wanted %t, want %t", p.Tests[i].Name, j.Wanted(i), word != "-")
				}
				if verdict := map[string]job.Verdict{"ac": job.Accepted, "wa": job.WrongAnswer}[word]; verdict != "" {
					j.Set(i, verdict, nil)
				}
			}
			whole := j.Whole()
			got := fmt.Sprintf("%s %v/%v", whole.Verdict, whole.Score, whole.MaxScore)
			for _, g := range whole.Groups {
				got += fmt.Sprintf(", %s %v/%v", g.Name, g.Score, g.MaxScore)
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s\n%s", got, tt.want, summary(p))
			}
		})
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
