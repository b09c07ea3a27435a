package grading

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func of(f float64) *float64 { return &f }

// judged sets the verdicts of a row such as "s/1=ac s/2=wa 3=tle:0.5", in which a test's group is the
// path before its last part, as far as they are wanted.
func judged(t *testing.T, row string, groups []job.Group) Whole {
	t.Helper()
	short := map[string]job.Verdict{
		"ac": job.Accepted, "wa": job.WrongAnswer, "tle": job.TestTimedOut, "rte": job.RunTimeError, "je": job.JudgeError, "ole": job.OutputLimit,
	}
	var tests []job.Test
	var verdicts []job.Verdict
	for _, cell := range words(row) {
		name, word, _ := strings.Cut(cell, "=")
		word, points, given := strings.Cut(word, ":")
		test := job.Test{Name: name}
		if i := strings.LastIndex(name, "/"); i > 0 {
			test.Group = name[:i]
		}
		if given {
			test.Points = of(map[string]float64{"0": 0, "5": 5, "10": 10, "third": 100.0 / 3, ".1": .1, ".2": .2}[points])
		}
		tests = append(tests, test)
		verdicts = append(verdicts, short[word])
	}
	j, err := NewJudgement(tests, groups)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if j.Wanted(i) {
			j.Set(i, v, nil)
		}
	}
	return j.Whole()
}

// shown is a whole as one line: verdict score/max, then the tests' verdicts, then the groups.
func (w Whole) shown() string {
	short := map[job.Verdict]string{
		job.Accepted: "ac", job.WrongAnswer: "wa", job.TestTimedOut: "tle", job.RunTimeError: "rte", job.JudgeError: "je", job.OutputLimit: "ole", job.SkippedTest: "-",
	}
	figures := func(v job.Verdict, score, most float64) string {
		return short[v] + " " + number(score) + "/" + number(most)
	}
	s := figures(w.Verdict, w.Score, w.MaxScore) + " |"
	for _, t := range w.Tests {
		s += " " + short[t.Verdict]
	}
	for _, g := range w.Groups {
		s += " | " + g.Name + " " + figures(g.Verdict, g.Score, g.MaxScore)
	}
	return s
}

func TestJudgement(t *testing.T) {
	t.Parallel()
	root := func(g job.Group) []job.Group { return []job.Group{g} }
	tests := []struct {
		name, row string
		groups    []job.Group
		want      string
	}{
		{"nothing", "", nil, "ac 0/0 |"},
		{"all accepted", "1=ac 2=ac", nil, "ac 2/2 | ac ac"},
		{"stops at the first", "1=ac 2=tle 3=ac 4=wa", nil, "tle 1/4 | ac tle - -"},
		{"sample before secret", "sample/1=wa secret/1=ac", nil, "wa 0/2 | wa - | sample wa 0/1 | secret - 0/1"},
		{"secret fails", "sample/1=ac secret/1=rte secret/2=ac", nil, "rte 1/3 | ac rte - | sample ac 1/1 | secret rte 0/2"},
		{"points go on", "1=ac:10 2=wa:5 3=ac:5", nil, "wa 15/20 | ac wa ac"},
		{"points, break", "1=ac:10 2=wa:5 3=ac:5", root(job.Group{OnReject: "break"}), "wa 10/20 | ac wa -"},
		{"three thirds", "1=ac:third 2=ac:third 3=ac:third", nil, "ac 100/100 | ac ac ac"},
		{"tenths", "1=ac:.1 2=ac:.2", nil, "ac 0.3/0.3 | ac ac"},
		{"worst", "1=wa:5 2=ole:5 3=rte:5 4=tle:5", root(job.Group{Verdict: "worst"}), "rte 0/20 | wa ole rte tle"},
		{"first", "1=wa:5 2=ole:5 3=rte:5 4=tle:5", nil, "wa 0/20 | wa ole rte tle"},
		{"always", "1=wa:5 2=ac:5", root(job.Group{Verdict: "always"}), "ac 5/10 | wa ac"},
		{"any", "1=wa:5 2=ac:5", root(job.Group{AcceptAny: true}), "ac 5/10 | wa ac"},
		{"any of none", "1=wa:5 2=tle:5", root(job.Group{AcceptAny: true}), "wa 0/10 | wa tle"},
		{"the judge's fault beats any", "1=je:5 2=ac:5", root(job.Group{AcceptAny: true, Verdict: "always"}), "je 5/10 | je ac"},
		{"the judge's fault is seen from the root", "a/1=wa:5 a/2=je:5", root(job.Group{Name: "a"}), "je 0/10 | wa je | a je 0/10"},
		{"min", "1=ac:10 2=ac:5", root(job.Group{Score: "min"}), "ac 5/5 | ac ac"},
		{"max", "1=ac:10 2=wa:5", root(job.Group{Score: "max"}), "wa 10/10 | ac wa"},
		{"avg", "1=ac:10 2=wa:5", root(job.Group{Score: "avg"}), "wa 5/7.5 | ac wa"},
		{"avg of those so far", "1=ac:10 2=wa:10 3=ac:10 4=ac:10", root(job.Group{Score: "avg", OnReject: "break"}), "wa 5/10 | ac wa - -"},
		{"pass or fail", "1=ac 2=ac", root(job.Group{Score: "pass_fail", MaxScore: of(40)}), "ac 40/40 | ac ac"},
		{"not all pass", "1=ac 2=wa", root(job.Group{Score: "pass_fail", MaxScore: of(40), AcceptAny: true}), "ac 0/40 | ac wa"},
		{"pass or fail of what it has", "1=ac:5 2=ac:10", root(job.Group{Score: "pass_fail"}), "ac 15/15 | ac ac"},
		{"a bound", "1=ac:10 2=ac:10", root(job.Group{MaxScore: of(15)}), "ac 15/15 | ac ac"},
		{"accept and reject", "1=ac 2=wa", root(job.Group{AcceptScore: of(10), RejectScore: of(3)}), "wa 13/20 | ac wa"},
		{"sum over two with accept_score 10", "g/1=ac g/2=ac", root(job.Group{Name: "g", AcceptScore: of(10)}), "ac 20/20 | ac ac | g ac 20/20"},
		{"empty group", "1=ac", root(job.Group{Name: "g", Score: "min"}), "ac 1/1 | ac | g ac 0/0"},
		{"the pattern of scoring packages", "sample/1=ac secret/g1/1=ac secret/g1/2=ac secret/g2/1=ac secret/g2/2=tle secret/g2/3=ac", []job.Group{
			{OnReject: "continue"},
			{Name: "sample", Verdict: "always", AcceptScore: of(0)},
			{Name: "secret", AcceptAny: true, OnReject: "continue"},
			{Name: "secret/g1", Score: "min", AcceptScore: of(30), OnReject: "break"},
			{Name: "secret/g2", Score: "min", AcceptScore: of(70), OnReject: "break"},
		}, "ac 30/100 | ac ac ac ac tle - | sample ac 0/0 | secret ac 30/100 | secret/g1 ac 30/30 | secret/g2 tle 0/70"},
		{"required, and not passed", "a/1=wa:5 b/1=ac:10 c/1=ac:10", []job.Group{{Name: "b", RequirePass: []string{"a"}}}, "wa 10/25 | wa - ac | a wa 0/5 | b - 0/10 | c ac 10/10"},
		{"required, and passed", "a/1=ac:5 b/1=ac:10", []job.Group{{Name: "b", RequirePass: []string{"a"}}}, "ac 15/15 | ac ac | a ac 5/5 | b ac 10/10"},
		{"required of those that were not run", "a/1=wa:5 b/1=ac:5 c/1=ac:5", []job.Group{
			{Name: "b", RequirePass: []string{"a"}}, {Name: "c", RequirePass: []string{"b"}},
		}, "wa 0/15 | wa - - | a wa 0/5 | b - 0/5 | c - 0/5"},
		{"not run is a zero for min", "a/1=wa:0 b/1=ac:5", []job.Group{{Score: "min", Verdict: "worst"}, {Name: "b", RequirePass: []string{"a"}}}, "wa 0/0 | wa - | a wa 0/0 | b - 0/5"},
		{"break ends groups beside it", "a/1=wa b/1=ac", nil, "wa 0/2 | wa - | a wa 0/1 | b - 0/1"},
		{"break of an inner group only", "a/1=wa:5 a/2=ac:5 b/1=ac:5", []job.Group{{Name: "a", OnReject: "break"}}, "wa 5/15 | wa - ac | a wa 0/10 | b ac 5/5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judged(t, tt.row, tt.groups).shown(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestScoresOfCheckers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		verdict job.Verdict
		score   float64
		want    Scored
	}{
		{job.Accepted, 4, Scored{job.Accepted, 4, 10}},
		{job.WrongAnswer, 4, Scored{job.WrongAnswer, 4, 10}},
		{job.Accepted, 11, Scored{job.Accepted, 10, 10}},
		{job.Accepted, -1, Scored{job.JudgeError, 0, 10}},
		{job.JudgeError, 5, Scored{job.JudgeError, 0, 10}},
		{job.SkippedTest, 5, Scored{job.SkippedTest, 0, 10}},
	}
	for _, tt := range tests {
		j, err := NewJudgement([]job.Test{{Name: "1", Points: of(10)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		j.Set(0, tt.verdict, &tt.score)
		if d := cmp.Diff([]Scored{tt.want}, j.Whole().Tests); d != "" {
			t.Errorf("%s with %v: %s", tt.verdict, tt.score, d)
		}
	}
}

// TestScoreWithoutPoints: a checker's score is bounded by nothing but the groups around the test.
func TestScoreWithoutPoints(t *testing.T) {
	t.Parallel()
	j, err := NewJudgement([]job.Test{{Name: "1", Group: "a"}, {Name: "2", Group: "b"}}, []job.Group{{Name: "a", MaxScore: of(30)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Most(0); got != 1 {
		t.Errorf("before, a test gives %v at most; want 1", got)
	}
	forty, tooMuch := 40.0, 2*job.MaxPoints
	j.Set(0, job.Accepted, &forty)
	j.Set(1, job.Accepted, &forty)
	if got, want := j.Whole(), (Scored{job.Accepted, 70, 70}); got.Score != want.Score || got.MaxScore != want.MaxScore || got.Tests[1] != (Scored{job.Accepted, 40, 40}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	j.Set(0, job.Accepted, &tooMuch)
	if got := j.Whole().Verdict; got != job.JudgeError {
		t.Errorf("%v points: got %s", tooMuch, got)
	}
}

// TestWantedBeforeAllIsKnown: a worker may run tests side by side, and asks before those ahead have ended.
func TestWantedBeforeAllIsKnown(t *testing.T) {
	t.Parallel()
	j, err := NewJudgement([]job.Test{{Name: "1"}, {Name: "2"}, {Name: "3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !j.Wanted(2) {
		t.Error("nothing is known, and test 3 is not wanted")
	}
	j.Set(1, job.WrongAnswer, nil)
	if !j.Wanted(0) || j.Wanted(2) {
		t.Errorf("after a rejection of test 2: wanted 1 is %t, 3 is %t; want true, false", j.Wanted(0), j.Wanted(2))
	}
	if got, want := j.Whole().Verdict, job.WrongAnswer; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewJudgementErrors(t *testing.T) {
	t.Parallel()
	_, err := NewJudgement([]job.Test{{Name: "1"}, {Name: "1"}}, nil)
	if job.CodeOf(err) != job.CodeInvalid || !strings.Contains(err.Error(), "tests[1].name") {
		t.Errorf("got %v", err)
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
