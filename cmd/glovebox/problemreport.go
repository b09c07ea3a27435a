package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// checkReport is what "glovebox problem check" found. Its JSON is what --format json prints.
type checkReport struct {
	Problem     string       `json:"problem"`
	TimeLimitMS int64        `json:"time_limit_ms"`
	Derived     bool         `json:"time_limit_derived"`
	MaxScore    *float64     `json:"max_score,omitempty"` // of a scoring problem that has a largest score
	Scoring     bool         `json:"scoring,omitempty"`
	Submissions []asExpected `json:"submissions"`
}

// asExpected is one submission of a problem. Problems are what is not as expected; Error says why it
// could not be judged, or that nothing is expected of it.
type asExpected struct {
	Submission string      `json:"submission"`
	Job        string      `json:"job,omitempty"`
	Runtime    string      `json:"runtime,omitempty"`
	Verdict    job.Verdict `json:"verdict,omitempty"`
	Score      float64     `json:"score"`
	SlowestMS  int64       `json:"slowest_ms"` // CPU time of the slowest test
	Expected   bool        `json:"expected"`
	Problems   []string    `json:"problems,omitempty"`
	Error      string      `json:"error,omitempty"`

	away bool // Glovebox or the judge failed
}

func (g *grader) checkReport(dir string, c checked) checkReport {
	r := checkReport{Problem: g.title(dir), TimeLimitMS: c.limit.Milliseconds(), Derived: c.derived, MaxScore: g.maxScore(), Scoring: g.problem.Scoring}
	for _, t := range c.attempts {
		r.Submissions = append(r.Submissions, g.expected(t, c.limit))
	}
	for _, s := range g.problem.Submissions {
		if len(s.Expect) == 0 {
			r.Submissions = append(r.Submissions, asExpected{Submission: s.Path, Expected: true, Error: "not run: nothing says what is expected of it"})
		}
	}
	return r
}

func (g *grader) expected(t *attempt, limit time.Duration) asExpected {
	is := gradedOf(t)
	s := asExpected{Submission: t.name, Job: t.id, Runtime: t.program.Runtime, SlowestMS: is.SlowestMS, Error: is.Error}
	if is.Verdict == "" || is.Verdict == job.JudgeError {
		s.Verdict, s.away = is.Verdict, t.id != ""
		return s
	}
	verdict, score, problems, err := g.problemsOf(t, limit)
	if err != nil {
		s.Error, s.away = err.Error(), true
		return s
	}
	s.Verdict, s.Score, s.Problems, s.Expected = verdict, score, problems, len(problems) == 0
	return s
}

func (r checkReport) exit() error {
	expected, away := true, false
	for _, s := range r.Submissions {
		expected, away = expected && s.Expected, away || s.away
	}
	switch {
	case away:
		return silent(exitGlovebox)
	case !expected:
		return silent(exitFailed)
	}
	return nil
}

func (a *app) printCheck(r checkReport, format string) error {
	switch format {
	case formatJSON:
		return a.printJSON(r)
	case formatJUnit:
		return printJUnit(untrusted(a.stdout), r.junit())
	}
	from := ""
	if r.Derived {
		from = ", derived"
	}
	fmt.Fprintf(a.stdout, "%s: time limit %s%s\n", plain(r.Problem), milliseconds(r.TimeLimitMS), from)
	w := a.table()
	fmt.Fprintln(w, "SUBMISSION\tVERDICT\tSCORE\tSLOWEST\tAS EXPECTED")
	for _, s := range r.Submissions {
		score := "–"
		if r.Scoring && s.Verdict != "" {
			score = outOf(s.Score, r.MaxScore)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(s.Submission), words(s.Verdict), score, milliseconds(s.SlowestMS), plain(s.says()))
	}
	return w.Flush()
}

func (s asExpected) says() string {
	switch {
	case s.Error != "":
		return s.Error
	case s.Expected:
		return "yes"
	}
	return "NO: " + strings.Join(s.Problems, "; ")
}

func (r checkReport) junit() junitSuites {
	suite := junitSuite{Name: r.Problem}
	for _, s := range r.Submissions {
		c := junitCase{Name: s.Submission, Class: r.Problem}
		switch {
		case s.Expected && s.Error != "":
			c.Skipped = &struct{}{}
		case s.Error != "":
			c.Error = &junitMessage{"not judged", s.Error}
		case !s.Expected:
			c.Failure = &junitMessage{string(s.Verdict), s.says()}
		}
		suite.add(c)
	}
	return junitSuites{Suites: []junitSuite{suite}}
}
