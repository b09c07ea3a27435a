package direct_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// What a problem has is not swept while the problem is there, nor for a day after it.
func TestUploadsOfProblemsStay(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	var uploads []string
	for _, content := range []string{"input of a problem", "input of two", "no problem's"} {
		f, err := producer.UploadFile(t.Context(), w.Client, "in", strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		uploads = append(uploads, f.Upload)
	}
	store := func(answer string, inputs ...string) job.ProblemHead {
		t.Helper()
		p := job.Problem{Tests: []job.Test{{Name: "0", Answer: answer}}}
		for i, input := range inputs {
			p.Tests = append(p.Tests, job.Test{Name: fmt.Sprint(i + 1), StdinUpload: input})
		}
		head, err := w.Client.StoreProblem(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	first, second := store("1", uploads[0], uploads[1]), store("2", uploads[1])
	var sizes int64
	for _, size := range w.Kept(t, "tenants/default/inputs/") {
		sizes += size
	}
	if got := stored(t, w); got != sizes || got < first.Bytes+second.Bytes {
		t.Errorf("%d bytes are counted, %d are stored", got, sizes)
	}
	// sweepAll lets time pass for all uploads until those that nobody keeps are gone.
	sweep(t, w)
	sweepAll := func(gone ...string) {
		t.Helper()
		for _, entry := range w.Raw.ZRange(t.Context(), garbageKey, 0, -1).Val() {
			due(t, w, entry)
		}
		gbtest.Eventually(t, "all uploads were looked at", func() bool {
			scores := w.Raw.ZRangeWithScores(t.Context(), garbageKey, 0, 0).Val()
			return len(scores) == 0 || scores[0].Score > 0 && len(w.Kept(t, "tenants/default/inputs/")) == 5-len(gone)
		})
		for _, sum := range gone {
			if len(w.Kept(t, "tenants/default/inputs/"+sum)) > 0 {
				t.Errorf("%s is still there", sum)
			}
		}
	}
	sweepAll(uploads[2])
	j, err := w.Client.Submit(t.Context(), job.Spec{Problem: first.Digest, Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.DeleteProblem(t.Context(), first.Digest); err != nil {
		t.Fatal(err)
	}
	in := time.Until(time.UnixMilli(int64(w.Raw.ZScore(t.Context(), garbageKey, "upload:"+uploads[0]).Val())))
	if in < 23*time.Hour {
		t.Errorf("an upload that a job waits for is swept in %v", in)
	}
	if got := w.Start(t, j.ID); len(got.Spec.Tests) != 3 {
		t.Errorf("got %+v, want the job to go on", got.Spec)
	}
	sweepAll(uploads[2], uploads[0], first.Form)
	gbtest.Eventually(t, "what is counted is what is stored", func() bool { // an object goes before it is counted as gone
		sizes = 0
		for _, size := range w.Kept(t, "tenants/default/") {
			sizes += size
		}
		return stored(t, w) == sizes
	})
	if len(w.Kept(t, "tenants/default/inputs/"+uploads[1])) != 1 {
		t.Error("what the other problem has is gone")
	}
	if err := w.Client.DeleteProblem(t.Context(), second.Digest); err != nil {
		t.Fatal(err)
	}
	if keys := w.Raw.Keys(t.Context(), "gb:{default}:problem*").Val(); len(keys) > 0 {
		t.Errorf("keys are left: %v", keys)
	}
}

// A job may read any upload of its tenant that it can name: what a problem is kept as can't be told from its digest.
func TestNoJobReadsAProblem(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	p := job.Problem{Tests: []job.Test{{Name: "1", Answer: "hidden", Hidden: true}}}
	head, err := w.Client.StoreProblem(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := p.Canonical()
	if err != nil || job.ProblemDigest(canonical) != head.Digest {
		t.Fatalf("got %s of %s, %v", head.Digest, canonical, err)
	}
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Files: []job.File{{Name: "p", Upload: head.Digest}}})
	var invalid job.Invalid
	if !errors.As(err, &invalid) || invalid[0].Field != "files[0].upload" {
		t.Errorf("got %+v, %v, want no such upload", j, err)
	}
	text, err := job.Marshal(head)
	if err != nil || strings.Contains(string(text), head.Form) || head.Form == "" {
		t.Errorf("got %s, %v, want nothing of %q", text, err, head.Form)
	}
}

// TestProblemOfBefore: what a list says of a problem that was stored before it said that, is in the problem.
func TestProblemOfBefore(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	points := 40.0
	for name, p := range map[string]job.Problem{
		"scores": {Tests: []job.Test{{Name: "1", Answer: "1", Points: &points}, {Name: "2", Answer: "2", Points: &points}}},
		"driver": {Tests: []job.Test{{Name: "1", Answer: "1"}}, Include: map[string]job.Include{
			"python": {Files: []job.File{{Name: "main.py", Content: "1"}}, Entrypoint: "main.py"}, "bash": {Files: []job.File{{Name: "in", Content: "1"}}},
			job.DefaultInclude: {Commands: &job.Commands{Run: "true"}},
		}},
	} {
		head, err := w.Client.StoreProblem(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case name == "scores" && (!head.Scoring || *head.MaxScore != 80 || head.StartsIn("python")):
			t.Errorf("%s: got %+v", name, head)
		case name == "driver" && (head.Scoring || *head.MaxScore != 1 || !head.StartsIn("python") || head.StartsIn("bash") || !head.StartsIn("cobol")):
			t.Errorf("%s: got %+v", name, head)
		}
		before := head
		before.Scoring, before.MaxScore, before.Starts = false, nil, nil
		text, err := json.Marshal(struct {
			job.ProblemHead
			Form string `json:"form"`
		}{before, before.Form})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Raw.HSet(t.Context(), "gb:{default}:problems", head.Digest, text).Err(); err != nil {
			t.Fatal(err)
		}
		if list, err := w.Client.ListProblems(t.Context()); err != nil || cmp.Diff([]job.ProblemHead{head}, list) != "" {
			t.Errorf("%s: got %v: %s", name, err, cmp.Diff([]job.ProblemHead{head}, list))
		}
		if again, err := w.Client.StoreProblem(t.Context(), p); err != nil || cmp.Diff(head, again) != "" {
			t.Errorf("%s: got %v: %s", name, err, cmp.Diff(head, again))
		}
		if err := w.Client.DeleteProblem(t.Context(), head.Digest); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProblemRefusals: what is wrong with a problem is said as it is stored, by its own fields.
func TestProblemRefusals(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	one := []job.Test{{Name: "1", Answer: "1"}}
	for name, test := range map[string]struct {
		problem        job.Problem
		field, message string
	}{
		"no tests":               {job.Problem{}, "tests", "is missing"},
		"no name of a test":      {job.Problem{Tests: []job.Test{{Answer: "1"}}}, "tests[0].name", "is empty"},
		"long name":              {job.Problem{Name: strings.Repeat("x", 201), Tests: one}, "name", "is too long"},
		"unknown runtime":        {job.Problem{Runtimes: []string{"cobol"}, Tests: one}, "runtimes", "is not a runtime of this Glovebox"},
		"alias":                  {job.Problem{Runtimes: []string{"python3"}, Tests: one}, "runtimes", "is an alias"},
		"include of no runtime":  {job.Problem{Include: map[string]job.Include{"cobol": {}}, Tests: one}, "include.cobol", "is not a runtime of this Glovebox"},
		"include of another":     {job.Problem{Runtimes: []string{"bash"}, Include: map[string]job.Include{"python": {}}, Tests: one}, "include.python", "is for a runtime that no submission may be in"},
		"name of a file":         {job.Problem{Include: map[string]job.Include{"python": {Files: []job.File{{Name: "../x", Content: "1"}}}}, Tests: one}, "include.python.files[0].name", ""},
		"artifact":               {job.Problem{Include: map[string]job.Include{"python": {Files: []job.File{{Name: "x", Artifact: "default-a/b"}}}}, Tests: one}, "include.python.files[0].artifact", "can't be a file of a problem"},
		"name of source":         {job.Problem{Include: map[string]job.Include{"python": {SourceName: "/x"}}, Tests: one}, "include.python.source_name", ""},
		"no such upload":         {job.Problem{Tests: []job.Test{{Name: "1", AnswerUpload: strings.Repeat("a", 64)}}}, "tests[0].answer_upload", "names no stored upload of this tenant"},
		"no such upload of file": {job.Problem{Include: map[string]job.Include{"python": {Files: []job.File{{Name: "x", Upload: strings.Repeat("a", 64)}}}}, Tests: one}, "include.python.files[0].upload", "names no stored upload of this tenant"},
		"checker":                {job.Problem{Tests: one, Checker: &job.Checker{Kind: "fuzzy"}}, "checker.kind", ""},
		"groups":                 {job.Problem{Tests: one, Groups: []job.Group{{Name: "g", RequirePass: []string{"none"}}}}, "groups[0].require_pass[0]", "is not a group of this job"},
		"limits":                 {job.Problem{Tests: one, Limits: job.Limits{MemoryMB: 1 << 20}}, "limits.memory_mb", "is out of range"},
		"submission_kb":          {job.Problem{Tests: one, SubmissionKB: -1}, "submission_kb", "is negative"},
		"too large":              {job.Problem{Tests: []job.Test{{Name: "1", Answer: strings.Repeat("x", job.MaxProblemBytes)}}}, "tests", "are too large"},
	} {
		_, err := w.Client.StoreProblem(t.Context(), test.problem)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != test.field || !strings.Contains(invalid[0].Message, test.message) {
			t.Errorf("%s: got %v, want %s: %s", name, err, test.field, test.message)
		}
	}
	if left := w.Kept(t, "tenants/default/inputs/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
}

// inTime is a context for what either comes at once, or waits for good.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func oneByOne(specs ...job.Spec) iter.Seq2[job.Spec, error] {
	return func(yield func(job.Spec, error) bool) {
		for _, spec := range specs {
			if !yield(spec, nil) {
				return
			}
		}
	}
}

// storeProblem stores a problem of one test.
func storeProblem(t *testing.T, w *producertest.Env, answer string, change func(*job.Problem)) string {
	t.Helper()
	p := job.Problem{Tests: []job.Test{{Name: "1", Answer: answer}}}
	if change != nil {
		change(&p)
	}
	head, err := w.Client.StoreProblem(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return head.Digest
}
