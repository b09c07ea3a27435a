package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
)

// TestWholeOfValidated: the scores that a problem's own validator gives are added up as the package says, however its
// submission was run; a test that was too slow has none.
func TestWholeOfValidated(t *testing.T) {
	t.Parallel()
	g := &grader{problem: validated(t, "0 100")}
	result := &job.Result{Tests: []job.TestResult{
		{Name: "secret/1", Verdict: job.Accepted, Score: 12.5, Usage: &job.Usage{CPUMS: 10}},
		{Name: "secret/2", Verdict: job.Accepted, Score: 50, Usage: &job.Usage{CPUMS: 3000}},
		{Name: "secret/3", Verdict: job.WrongAnswer, Usage: &job.Usage{CPUMS: 10}},
	}}
	w, err := g.whole(&attempt{result: result}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if w.Score != 12.5 || w.Tests[1].Verdict != job.TestTimedOut {
		t.Errorf("got %+v, want 12.5 and a time-out", w)
	}
}

// validated is a legacy package of three tests, whose own validator gives scores of that range.
func validated(t *testing.T, scores string) *kattis.Problem {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"problem.yaml":              "type: scoring\nvalidation: custom score\n",
		"output_validators/v.py":    "",
		"data/secret/testdata.yaml": "on_reject: continue\ngrader_flags: always_accept\nrange: " + scores + "\n",
		"data/secret/1.in":          "", "data/secret/1.ans": "",
		"data/secret/2.in": "", "data/secret/2.ans": "",
		"data/secret/3.in": "", "data/secret/3.ans": "",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	p, err := kattis.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLargestScore: a score is out of the largest one, and out of none where the package's validator gives what it likes.
func TestLargestScore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scores, score, next, described string
		whole                          float64
	}{
		{"0 100", "12.5 / 100", `"max_score": 100,`, "100", 100},
		{"0 +inf", "12.5", `"scoring": true,`, "none: the output validator gives what it likes", 3},
	} {
		t.Run(tt.scores, func(t *testing.T) {
			t.Parallel()
			score, most := 12.5, tt.whole
			g := &grader{problem: validated(t, tt.scores)}
			result := &job.Result{
				Verdict: job.Accepted, Score: &score, MaxScore: &most, Tests: []job.TestResult{{Name: "secret/1", Verdict: job.Accepted, Score: score, MaxScore: score}},
				Groups: []job.GroupResult{{Name: "secret", Verdict: job.Accepted, Score: score, MaxScore: most}},
			}
			report := g.report("adding", time.Second, []*attempt{{name: "add.py", result: result}})
			printed := func(do func(*app) error) string {
				var out bytes.Buffer
				if err := do(&app{stdout: &out}); err != nil {
					t.Error(err)
				}
				return out.String()
			}
			text := printed(func(a *app) error { return a.printReport(report, formatTable) })
			if !strings.HasPrefix(text, "add.py: accepted, "+tt.score+"\n") || !strings.HasSuffix(text, " "+tt.score+"\n") {
				t.Errorf("got %s", text)
			}
			if text := printed(func(a *app) error { return a.printReport(report, formatJSON) }); !strings.Contains(text, "  \"time_limit_ms\": 1000,\n  "+tt.next) {
				t.Errorf("got %s", text)
			}
			if text := printed(func(a *app) error { return a.describe(g.problem) }); !regexp.MustCompile(`largest score +` + tt.described + "\n").MatchString(text) {
				t.Errorf("got %s", text)
			}
		})
	}
	most := 3.0
	if got := outOf(12.5, &most); got != "12.5" { // of a stored problem there is only what its tests give by themselves
		t.Errorf("12.5 of 3 is %q", got)
	}
}
