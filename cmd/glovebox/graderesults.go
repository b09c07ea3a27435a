package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// gradescopeResults is what Gradescope reads of an autograder, results.json.
type gradescopeResults struct {
	Score  float64          `json:"score"` // counts in the place of the tests' own
	Output string           `json:"output"`
	Tests  []gradescopeTest `json:"tests"`
}

type gradescopeTest struct {
	Name       string   `json:"name"`
	Score      *float64 `json:"score,omitempty"`
	MaxScore   *float64 `json:"max_score,omitempty"`
	Status     string   `json:"status"` // passed, failed
	Output     string   `json:"output,omitempty"`
	Visibility string   `json:"visibility"` // visible, hidden
}

// exercismResults is what Exercism reads of a test runner, results.json of version 2.
type exercismResults struct {
	Version int            `json:"version"`
	Status  string         `json:"status"`            // pass, fail; error: no test was run
	Message string         `json:"message,omitempty"` // with error
	Tests   []exercismTest `json:"tests"`
}

type exercismTest struct {
	Name     string `json:"name"`
	Status   string `json:"status"` // pass, fail, error
	Message  string `json:"message,omitempty"`
	Output   string `json:"output,omitempty"` // up to mostExercismOutput characters
	TestCode string `json:"test_code,omitempty"`
}

// printResults prints the report on one submission as a platform reads it. One that was not judged has none: whatever
// stood there, the platform would make a score of it.
func (a *app) printResults(r gradeReport, format string) error {
	s := r.Submissions[0]
	unjudged := s.Verdict == "" || s.Verdict == job.JudgeError
	for _, t := range s.Tests {
		unjudged = unjudged || t.Verdict == job.JudgeError
	}
	if unjudged {
		return &failure{code: exitGlovebox, err: fmt.Errorf("%s was not judged: %s", s.Submission, cmp.Or(s.Error, words(s.Verdict)))}
	}
	if format == formatGradescope {
		return a.printJSON(r.gradescope(s))
	}
	return a.printJSON(r.exercism(s))
}

// gradescope gives the score of a scoring problem, and else 1 for a submission that was accepted.
func (r gradeReport) gradescope(s graded) gradescopeResults {
	all := gradescopeResults{Output: r.summary(s), Tests: []gradescopeTest{}}
	switch {
	case !r.Scoring && s.Verdict == job.Accepted:
		all.Score = 1
	case r.Scoring && s.Score != nil:
		all.Score = *s.Score
	}
	for _, t := range s.Tests {
		g := gradescopeTest{Name: t.Name, Status: "failed", Output: says(t), Visibility: "visible"}
		if t.Verdict == job.Accepted {
			g.Status = "passed"
		}
		if t.Hidden {
			g.Visibility = "hidden"
		}
		if r.Scoring && t.MaxScore > 0 {
			g.Score, g.MaxScore = &t.Score, &t.MaxScore
		}
		all.Tests = append(all.Tests, g)
	}
	return all
}

// summary is what is said of a submission as a whole. Students read it: of hidden tests there is only how many they are.
func (r gradeReport) summary(s graded) string {
	lines := []string{words(s.Verdict) + ", " + r.scoreOf(s)}
	if r.Scoring {
		for _, g := range s.Groups {
			if g.Name != "" && g.MaxScore > 0 {
				lines = append(lines, g.Name+": "+r.groupScore(g))
			}
		}
	}
	hidden := 0
	for _, t := range s.Tests {
		if t.Hidden {
			hidden++
		}
	}
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("hidden tests: %d", hidden))
	}
	if s.Verdict == job.VerdictCompileFailed {
		lines = append(lines, compilerOutput(s))
	}
	return strings.Join(lines, "\n")
}

// says is what a test's author and the program say of a test, as far as that may be shown.
func says(t job.TestResult) string {
	var lines []string
	if remark := rejection(t); remark != "" {
		lines = append(lines, remark)
	}
	for _, stream := range []struct{ name, text string }{{"output", t.Stdout}, {"standard error", t.Stderr}} {
		if stream.text != "" {
			lines = append(lines, stream.name+":\n"+stream.text)
		}
	}
	return strings.Join(lines, "\n")
}

// rejection is the verdict on a test and why, on one line; what a checker says of one that it accepts, or "".
func rejection(t job.TestResult) string {
	remark := strings.TrimSpace(remarkOf(t))
	switch {
	case t.Verdict == job.Accepted:
		return remark
	case t.Verdict == job.SkippedTest:
		return strings.TrimSpace("not run " + remark)
	case remark == "":
		return words(t.Verdict)
	}
	return words(t.Verdict) + ": " + remark
}

// Bounds of Exercism's, in characters and bytes, and how much of an input it is shown.
const (
	mostExercismOutput  = 500
	mostExercismMessage = 65535
	mostExercismInput   = 4 << 10
)

// exercism passes a submission that passes all tests: a part of the points is no pass.
func (r gradeReport) exercism(s graded) exercismResults {
	all := exercismResults{Version: 2, Status: "pass", Tests: []exercismTest{}}
	if s.Verdict == job.VerdictCompileFailed {
		all.Status, all.Message = "error", cut(cmp.Or(compilerOutput(s), "it does not compile"), mostExercismMessage, "…")
		return all
	}
	for _, t := range s.Tests {
		e := exercismTest{Name: t.Name, Message: rejection(t), TestCode: r.inputs[t.Name]}
		e.Output = cut(t.Stdout+t.Stderr, mostExercismOutput, "\nOutput was truncated. Please limit to 500 chars")
		switch t.Verdict { //nolint:exhaustive // all others
		case job.Accepted:
			e.Status = "pass"
		case job.WrongAnswer, job.SkippedTest:
			e.Status = "fail"
		default:
			e.Status = "error"
		}
		if e.Status != "pass" {
			all.Status = "fail"
		}
		all.Tests = append(all.Tests, e)
	}
	return all
}

// cut shortens a text to so many bytes, with what is said of that.
func cut(s string, most int, notice string) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(notice)], "") + notice
}
