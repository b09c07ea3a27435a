package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// gradedReport is one submission of a scoring problem, with tests of each verdict.
func gradedReport() gradeReport {
	most, score, whole, one := 100.0, 35.5, 100.0, 1
	tests := []job.TestResult{
		{Name: "sample/1", Group: "sample", Verdict: job.Accepted, Stdout: "3\n", Stderr: "adding <1> & 2\n", Usage: &job.Usage{CPUMS: 12}},
		{
			Name: "sample/2", Group: "sample", Verdict: job.WrongAnswer, Stdout: strings.Repeat("é", 400), Usage: &job.Usage{CPUMS: 12},
			Difference: &job.Difference{Line: 1, Column: 1, Want: "4", Got: "éé"}, Feedback: "add, don't concatenate", JudgeMessage: "the answer is 4",
		},
		{Name: "sample/3", Group: "sample", Verdict: job.RunTimeError, ExitCode: &one, Stderr: "Traceback\n"},
		{Name: "secret/1", Group: "secret", Verdict: job.Accepted, Score: 35.5, MaxScore: 50, Hidden: true},
		{Name: "secret/2", Group: "secret", Verdict: job.TestTimedOut, MaxScore: 25, Hidden: true, Feedback: "large numbers"},
		{Name: "secret/3", Group: "secret", Verdict: job.SkippedTest, MaxScore: 25, Hidden: true},
	}
	return gradeReport{
		Problem: "Adding", MaxScore: &most, Scoring: true, inputs: map[string]string{"sample/1": "1 2\n", "sample/2": "2 2\n", "sample/3": ""},
		Submissions: []graded{{
			Submission: "add.py", Verdict: job.WrongAnswer, Score: &score, MaxScore: &whole, Tests: tests,
			Groups: []job.GroupResult{{Name: "", Score: 35.5, MaxScore: 100}, {Name: "sample"}, {Name: "secret", Verdict: job.WrongAnswer, Score: 35.5, MaxScore: 100}},
		}},
	}
}

// uncompiled is one that does not compile, with more to say of that than a platform takes.
func uncompiled() gradeReport {
	zero := 0.0
	return gradeReport{Problem: "Adding", Submissions: []graded{{
		Submission: "add.c", Verdict: job.VerdictCompileFailed, Score: &zero, Tests: []job.TestResult{{Name: "secret/1", Verdict: job.SkippedTest, Hidden: true}},
		Compile: &job.Compile{ExitCode: 1, Output: "add.c:1: error\n" + strings.Repeat("ü", 40_000)},
	}}}
}

// TestGradeResults: what the two platforms are given is as their formats have it, and has nothing of hidden tests or
// of what is said to judges.
func TestGradeResults(t *testing.T) {
	t.Parallel()
	passed := gradedReport()
	passed.MaxScore, passed.Scoring = nil, false
	s := &passed.Submissions[0]
	s.Verdict, s.Tests = job.Accepted, []job.TestResult{s.Tests[0], s.Tests[3]}
	for _, tt := range []struct {
		name   string
		report gradeReport
	}{{"rejected", gradedReport()}, {"passed", passed}, {"uncompiled", uncompiled()}} {
		for format, check := range map[string]func(map[string]any) error{formatGradescope: checkGradescope, formatExercism: checkExercism} {
			t.Run(format+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				if err := (&app{stdout: &out}).printReport(tt.report, format); err != nil {
					t.Fatal(err)
				}
				var got map[string]any
				if err := json.Unmarshal(out.Bytes(), &got); err != nil {
					t.Fatalf("%v in\n%s", err, out.String())
				}
				if err := check(got); err != nil {
					t.Errorf("%v in\n%s", err, out.String())
				}
				if strings.Contains(out.String(), "the answer is") {
					t.Errorf("what is said to judges is in\n%s", out.String())
				}
				if tt.name == "uncompiled" {
					return // its size is what counts
				}
				golden := filepath.Join("testdata", "results", format+"-"+tt.name+".json")
				if *update {
					if err := os.WriteFile(golden, out.Bytes(), 0o666); err != nil { //nolint:gosec // as files of the tree are
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), out.String()); d != "" {
					t.Errorf("run the test with -update if that is right:\n%s", d)
				}
			})
		}
	}
}

// fieldsOf fails where an object lacks a field, or has one that is not of the format; a type is the Go name of the one that JSON is decoded to.
func fieldsOf(object map[string]any, required, optional map[string]string) error {
	for name := range required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name, value := range object {
		want := required[name] + optional[name]
		if got := fmt.Sprintf("%T", value); got != want {
			return fmt.Errorf("%s is %s, want %q", name, got, want)
		}
	}
	return nil
}

func oneOf(object map[string]any, field string, words ...string) error {
	if value, ok := object[field]; ok && !slices.Contains(words, fmt.Sprint(value)) {
		return fmt.Errorf("%s is %v, want one of %v", field, value, words)
	}
	return nil
}

// checkGradescope checks what "Autograder Specifications" of Gradescope says of results.json: a score is there for the
// whole, or else for each test.
func checkGradescope(results map[string]any) error {
	if err := fieldsOf(results, map[string]string{"score": "float64", "tests": "[]interface {}"}, map[string]string{"output": "string"}); err != nil {
		return err
	}
	for _, test := range results["tests"].([]any) {
		object, _ := test.(map[string]any)
		err := fieldsOf(object, map[string]string{"name": "string", "status": "string", "visibility": "string"}, map[string]string{"score": "float64", "max_score": "float64", "output": "string"})
		if err == nil {
			err = oneOf(object, "status", "passed", "failed")
		}
		if err == nil {
			err = oneOf(object, "visibility", "hidden", "after_due_date", "after_published", "visible")
		}
		if err != nil {
			return fmt.Errorf("%v: %w", object["name"], err)
		}
	}
	return nil
}

// checkExercism checks what "The Test Runner Interface" of Exercism says of results.json, version 2: the message is there with
// error alone, output has up to 500 characters, and all pass or the whole does not.
func checkExercism(results map[string]any) error {
	err := fieldsOf(results, map[string]string{"version": "float64", "status": "string", "tests": "[]interface {}"}, map[string]string{"message": "string"})
	if err == nil {
		err = oneOf(results, "status", "pass", "fail", "error")
	}
	if err != nil {
		return err
	}
	tests, _ := results["tests"].([]any)
	message, said := results["message"].(string)
	switch {
	case results["version"] != 2.0:
		return fmt.Errorf("the version is %v", results["version"])
	case said != (results["status"] == "error"):
		return fmt.Errorf("status %v with the message %q", results["status"], message)
	case len(message) > 65535 || !utf8.ValidString(message):
		return fmt.Errorf("the message has %d bytes", len(message))
	case results["status"] != "error" && len(tests) == 0:
		return fmt.Errorf("no tests with status %v", results["status"])
	}
	all := true
	for _, test := range tests {
		object, _ := test.(map[string]any)
		err := fieldsOf(object, map[string]string{"name": "string", "status": "string"}, map[string]string{"message": "string", "output": "string", "test_code": "string"})
		if err == nil {
			err = oneOf(object, "status", "pass", "fail", "error")
		}
		if output, _ := object["output"].(string); err == nil && (utf8.RuneCountInString(output) > 500 || !utf8.ValidString(output)) {
			err = fmt.Errorf("output has %d characters", utf8.RuneCountInString(output))
		}
		if err != nil {
			return fmt.Errorf("%v: %w", object["name"], err)
		}
		all = all && object["status"] == "pass"
	}
	if all != (results["status"] == "pass") && results["status"] != "error" {
		return fmt.Errorf("status %v, and all tests pass: %t", results["status"], all)
	}
	return nil
}

// TestGradeResultsOfNobody: what was not judged is no score, on no platform.
func TestGradeResultsOfNobody(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{".timelimit": "1"}))
	good, lost, cobol := b.file("good.py", "#good"), b.file("lost.py", "#lost"), b.file("a.cob", "x")
	for _, format := range ofOne {
		for _, tt := range []struct {
			args []string
			code int
			want string // on stderr; "": results are printed
		}{
			{[]string{good}, exitOK, ""},
			{[]string{b.file("wrong.py", "#wrong")}, exitFailed, ""},
			{[]string{b.file("nonsense.py", "#nonsense")}, exitFailed, ""},
			{[]string{lost}, exitGlovebox, "was not judged: the worker was lost"},
			{[]string{b.file("unjudged.py", "#unjudged")}, exitGlovebox, "was not judged: judge error"},
			{[]string{cobol}, exitGlovebox, "was not judged: no language goes by"},
			{[]string{good, lost}, exitUsage, "is a report on one SUBMISSION (got 2)"},
			{nil, exitUsage, "--format " + format + ": want table, json, junit"},
			{[]string{"--json", good}, exitUsage, "--json beside --format " + format},
		} {
			stdout, stderr, code := b.glovebox("", append([]string{"grade", "--problem", dir, "--format", format}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) || (stdout == "") != (tt.want != "") {
				t.Errorf("%s %v: got exit code %d, %q and %q; want %d and %q", format, tt.args, code, stdout, stderr, tt.code, tt.want)
			}
		}
	}
	stdout, stderr, code := b.glovebox("", "grade", "--problem", dir, "--format", formatExercism, good)
	if !strings.Contains(stdout, `"test_code": "1 2\n"`) || strings.Count(stdout, "test_code") != 1 {
		t.Errorf("the inputs of tests that are not hidden: got exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code = b.glovebox("", "grade", "--problem", dir, "--json", good); code != exitOK || !strings.HasPrefix(stdout, "{") {
		t.Errorf("--json: got exit code %d, %s%s", code, stdout, stderr)
	}
}
