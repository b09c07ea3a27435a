package main

import (
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
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"problem.yaml":              "type: scoring\nvalidation: custom score\n",
		"output_validators/v.py":    "",
		"data/secret/testdata.yaml": "on_reject: continue\ngrader_flags: always_accept\nrange: 0 100\n",
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
	g := &grader{problem: p}
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
