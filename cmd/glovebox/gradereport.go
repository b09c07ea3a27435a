package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// The formats of a report.
const (
	formatTable      = "table"
	formatJSON       = "json"
	formatJUnit      = "junit"
	formatGradescope = "gradescope"
	formatExercism   = "exercism"
)

// gradeReport is what "glovebox grade" found. Its JSON is what --format json prints.
type gradeReport struct {
	Problem     string   `json:"problem"`
	TimeLimitMS int64    `json:"time_limit_ms,omitempty"` // absent for a stored problem
	MaxScore    *float64 `json:"max_score,omitempty"`     // of a scoring problem that has a largest score
	Scoring     bool     `json:"scoring,omitempty"`
	Submissions []graded `json:"submissions"`

	inputs map[string]string // what programs read in tests that are not hidden, by the tests' names
}

// graded is one submission. A verdict that is absent means that it could not be judged: Error says why.
type graded struct {
	Submission string            `json:"submission"`
	Job        string            `json:"job,omitempty"`
	Runtime    string            `json:"runtime,omitempty"`
	Verdict    job.Verdict       `json:"verdict,omitempty"`
	Score      *float64          `json:"score,omitempty"`
	MaxScore   *float64          `json:"max_score,omitempty"`
	SlowestMS  int64             `json:"slowest_ms"` // CPU time of the slowest test
	Tests      []job.TestResult  `json:"tests"`
	Groups     []job.GroupResult `json:"groups,omitempty"`
	Compile    *job.Compile      `json:"compile,omitempty"`
	Error      string            `json:"error,omitempty"`
}

func (g *grader) report(problem string, limit time.Duration, attempts []*attempt) gradeReport {
	r := gradeReport{Problem: g.title(problem), TimeLimitMS: limit.Milliseconds(), MaxScore: g.maxScore(), Scoring: g.problem.Scoring}
	for _, t := range attempts {
		r.Submissions = append(r.Submissions, gradedOf(t))
	}
	return r
}

// title is the problem's name, or its folder's.
func (g *grader) title(dir string) string { return cmp.Or(g.problem.Name, filepath.Base(dir)) }

// maxScore is nil for a problem without scores, or without a largest one.
func (g *grader) maxScore() *float64 {
	if !g.problem.Scoring || !g.problem.Bounded() {
		return nil
	}
	most := g.problem.MaxScore()
	return &most
}

func gradedOf(t *attempt) graded {
	s := graded{Submission: t.name, Job: t.id, Runtime: t.program.Runtime, Error: t.why, Tests: []job.TestResult{}}
	if t.result == nil {
		return s
	}
	s.Verdict, s.Score, s.MaxScore, s.Groups, s.Compile = t.result.Verdict, t.result.Score, t.result.MaxScore, t.result.Groups, t.result.Compile
	if t.result.Tests != nil {
		s.Tests = t.result.Tests
	}
	for _, test := range s.Tests {
		if test.Usage != nil {
			s.SlowestMS = max(s.SlowestMS, test.Usage.CPUMS)
		}
	}
	switch {
	case t.result.Error != nil:
		s.Error = t.result.Error.Message
	case s.Verdict == "":
		s.Error = "it was not judged: " + headline(*t.result)
	}
	return s
}

// exit is the exit code: that Glovebox failed counts more than that a submission did.
func (r gradeReport) exit() error {
	failed, judged := false, true
	for _, s := range r.Submissions {
		failed = failed || s.Verdict != job.Accepted
		judged = judged && s.Verdict != "" && s.Verdict != job.JudgeError
	}
	switch {
	case !judged:
		return silent(exitGlovebox)
	case failed:
		return silent(exitFailed)
	}
	return nil
}

func (a *app) printReport(r gradeReport, format string) error {
	switch format {
	case formatJSON:
		return a.printJSON(r)
	case formatJUnit:
		return printJUnit(untrusted(a.stdout), r.junit())
	case formatGradescope, formatExercism:
		return a.printResults(r, format)
	}
	if len(r.Submissions) == 1 {
		return a.printGraded(r, r.Submissions[0])
	}
	w := a.table()
	fmt.Fprintln(w, "SUBMISSION\tVERDICT\tSCORE\tSLOWEST\tFIRST REJECTED")
	for _, s := range r.Submissions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(s.Submission), words(s.Verdict), r.scoreOf(s), milliseconds(s.SlowestMS), firstRejected(s))
	}
	return w.Flush()
}

// words are a verdict as a person reads it.
func words(v job.Verdict) string {
	return cmp.Or(strings.ReplaceAll(string(v), "_", " "), "not judged")
}

// scoreOf is a score where the problem is about scores, else how many tests were accepted.
func (r gradeReport) scoreOf(s graded) string {
	if r.Scoring {
		if s.Score == nil {
			return "–"
		}
		return outOf(*s.Score, r.MaxScore)
	}
	n := 0
	for _, t := range s.Tests {
		if t.Verdict == job.Accepted {
			n++
		}
	}
	return fmt.Sprintf("%d / %d tests", n, len(s.Tests))
}

// outOf is a score and the largest one. Where a validator gives what it likes there is none: most is nil, or less, as of a stored problem.
func outOf(score float64, most *float64) string {
	if most == nil || score > *most {
		return points(score)
	}
	return points(score) + " / " + points(*most)
}

func points(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func firstRejected(s graded) string {
	for _, t := range s.Tests {
		if t.Verdict != job.Accepted && t.Verdict != job.SkippedTest {
			return plain(t.Name)
		}
	}
	return plain(clipped(s.Error))
}

// printGraded prints all of one submission.
func (a *app) printGraded(r gradeReport, s graded) error {
	fmt.Fprintf(a.stdout, "%s: %s, %s\n", plain(s.Submission), words(s.Verdict), r.scoreOf(s))
	if s.Error != "" {
		fmt.Fprintf(a.stdout, "  %s\n", plain(s.Error))
	}
	if s.Verdict == job.VerdictCompileFailed && s.Compile != nil {
		fmt.Fprintf(a.stdout, "  compiler (exit code %d):\n%s\n", s.Compile.ExitCode, indent(string(showControls([]byte(s.Compile.Output)))))
		return nil
	}
	if len(s.Tests) == 0 {
		return nil
	}
	w := a.table()
	fmt.Fprintln(w, "TEST\tVERDICT\tCPU\tMEMORY\t"+r.scoreTitle())
	for _, t := range s.Tests {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\n", plain(t.Name), words(t.Verdict), usageOf(t), r.testScore(t), remarkOf(t))
	}
	if r.Scoring && len(s.Groups) > 0 {
		fmt.Fprintln(w, "\nGROUP\tVERDICT\tSCORE")
		for _, g := range s.Groups {
			fmt.Fprintf(w, "%s\t%s\t%s\n", plain(g.Name), words(g.Verdict), r.groupScore(g))
		}
	}
	return w.Flush()
}

// scoreTitle is the column of tests' scores, which a problem without scores has not.
func (r gradeReport) scoreTitle() string {
	if !r.Scoring {
		return ""
	}
	return "SCORE\t"
}

func (r gradeReport) groupScore(g job.GroupResult) string {
	if r.MaxScore == nil {
		return outOf(g.Score, nil)
	}
	return outOf(g.Score, &g.MaxScore)
}

func (r gradeReport) testScore(t job.TestResult) string {
	switch {
	case !r.Scoring:
		return ""
	case t.MaxScore == 0: // the test's group alone has one
		return "–\t"
	}
	return outOf(t.Score, &t.MaxScore) + "\t"
}

func usageOf(t job.TestResult) string {
	if t.Usage == nil {
		return "\t"
	}
	return milliseconds(t.Usage.CPUMS) + "\t" + bytesOf(t.Usage.MemoryPeakBytes)
}

// remarkOf says why a test was rejected, as far as that may be shown, on one line.
func remarkOf(t job.TestResult) string {
	text := t.Feedback
	switch {
	case t.Difference != nil:
		text = fmt.Sprintf("line %d, column %d: want %q, got %q", t.Difference.Line, t.Difference.Column, t.Difference.Want, t.Difference.Got)
		if t.Feedback != "" {
			text += "; " + t.Feedback
		}
	case t.Signal != "":
		text = t.Signal + " " + text
	case t.ExitCode != nil && *t.ExitCode != 0:
		text = fmt.Sprintf("exit code %d ", *t.ExitCode) + text
	}
	return plain(text)
}

// junitSuites is JUnit's XML, as far as its readers agree on it.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr,omitempty"` // seconds
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *struct{}     `xml:"skipped,omitempty"`
}

type junitMessage struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
}

func (r gradeReport) junit() junitSuites {
	var all junitSuites
	for _, s := range r.Submissions {
		suite := junitSuite{Name: r.Problem + ": " + s.Submission}
		for _, t := range s.Tests {
			suite.add(junitTest(s, t))
		}
		if s.Verdict == "" || s.Verdict == job.VerdictCompileFailed || len(s.Tests) == 0 {
			c := junitCase{Name: "submission", Class: s.Submission, Error: &junitMessage{words(s.Verdict), s.Error}}
			if s.Verdict == job.VerdictCompileFailed {
				c.Failure, c.Error = &junitMessage{string(s.Verdict), compilerOutput(s)}, nil
			}
			suite.add(c)
		}
		all.Suites = append(all.Suites, suite)
	}
	return all
}

func compilerOutput(s graded) string {
	if s.Compile == nil {
		return ""
	}
	return s.Compile.Output
}

func junitTest(s graded, t job.TestResult) junitCase {
	c := junitCase{Name: t.Name, Class: s.Submission}
	if t.Usage != nil {
		c.Time = strconv.FormatFloat(float64(t.Usage.CPUMS)/1000, 'f', 3, 64)
	}
	switch t.Verdict {
	case job.Accepted:
	case job.SkippedTest:
		c.Skipped = &struct{}{}
	case job.JudgeError:
		c.Error = &junitMessage{string(t.Verdict), remarkOf(t)}
	default:
		c.Failure = &junitMessage{string(t.Verdict), remarkOf(t)}
	}
	return c
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func printJUnit(w io.Writer, suites junitSuites) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(suites); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
