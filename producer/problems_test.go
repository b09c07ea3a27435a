package producer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// problem is one whose Python submissions are called by a driver.
func problem(upload string) job.Problem {
	return job.Problem{
		Name: "Roman numerals", Runtimes: []string{"python", "bash"}, SubmissionKB: 1,
		Include: map[string]job.Include{"python": {Files: []job.File{{Name: "main.py", Content: "import solution"}}, SourceName: "solution.py", Entrypoint: "main.py"}},
		Limits:  job.Limits{CPUMS: 700, WallMS: 2000},
		Checker: &job.Checker{Kind: "lines"},
		Tests:   []job.Test{{Name: "1", Stdin: "1\n", Answer: "I\n"}, {Name: "2", Hidden: true, StdinUpload: upload, Answer: "X\n"}},
		Groups:  []job.Group{{Name: "", OnReject: "continue"}},
	}
}

// problems is the contract of producer.Problems.
func (s suite) problems(t *testing.T) {
	own, others := s.jobs.(producer.Problems), s.other.(producer.Problems)
	ctx := t.Context()
	if list, err := own.ListProblems(ctx); err != nil || list == nil || len(list) > 0 {
		t.Errorf("got %v, %v, want an empty list", list, err)
	}
	file, err := producer.UploadFile(ctx, s.jobs.(producer.Uploader), "in", strings.NewReader("10\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := problem(file.Upload)
	canonical, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	stored, err := own.StoreProblem(ctx, p)
	two := 2.0
	if want := (job.ProblemHead{Digest: sha(string(canonical)), Name: p.Name, Tests: 2, Bytes: int64(len(canonical)), CreatedAt: stored.CreatedAt, MaxScore: &two, Starts: map[string]bool{"python": true}, Form: stored.Form}); err != nil || cmp.Diff(want, stored) != "" {
		t.Fatalf("got %v: %s", err, cmp.Diff(want, stored))
	}
	if again, err := own.StoreProblem(ctx, p); err != nil || cmp.Diff(stored, again) != "" {
		t.Errorf("the same again: got %+v, %v", again, err)
	}
	if list, err := own.ListProblems(ctx); err != nil || cmp.Diff([]job.ProblemHead{stored}, list) != "" {
		t.Errorf("got %+v, %v", list, err)
	}
	if got, err := own.Problem(ctx, stored.Digest); err != nil || cmp.Diff(job.StoredProblem{ProblemHead: stored, Problem: p}, got) != "" {
		t.Errorf("got %v: %s", err, cmp.Diff(job.StoredProblem{ProblemHead: stored, Problem: p}, got))
	}
	if _, err := others.Problem(ctx, stored.Digest); !errors.Is(err, job.ErrNoProblem) {
		t.Errorf("another tenant's: got %v, want ErrNoProblem", err)
	}
	if err := others.DeleteProblem(ctx, stored.Digest); !errors.Is(err, job.ErrNoProblem) {
		t.Errorf("delete another tenant's: got %v, want ErrNoProblem", err)
	}

	// A submission is a job as if all of the problem had come with it.
	j, err := s.jobs.Submit(ctx, job.Spec{Problem: stored.Digest, Runtime: "python3", Source: "def roman(n): pass", Limits: job.Limits{WallMS: 3000}, Metadata: map[string]string{"student": "42"}})
	if err != nil || j.Summary.Problem != stored.Digest {
		t.Fatalf("submit: got %+v, %v", j.Summary, err)
	}
	taken := s.w.Start(t, j.ID)
	want := job.Spec{
		Problem: stored.Digest, Runtime: "python", Entrypoint: "main.py", Files: []job.File{{Name: "solution.py", Content: "def roman(n): pass"}, {Name: "main.py", Content: "import solution"}},
		Limits: job.Limits{CPUMS: 700, WallMS: 3000}, Tests: p.Tests, Checker: p.Checker, Groups: p.Groups, Metadata: map[string]string{"student": "42"},
	}
	if diff := cmp.Diff(&want, taken.Spec); diff != "" {
		t.Errorf("the worker's spec: %s", diff)
	}
	s.w.End(t, taken, nil, nil)
	if ended, err := s.jobs.Get(ctx, j.ID); err != nil || ended.Result.Problem != stored.Digest {
		t.Errorf("got %+v, %v, want the problem in its result", ended.Result, err)
	}
	page, err := s.jobs.(producer.Lister).List(ctx, producer.ListOptions{})
	if err != nil || !slices.ContainsFunc(page.Jobs, func(r job.Summary) bool { return r.ID == j.ID && r.Problem == stored.Digest }) {
		t.Errorf("got %+v, %v, want the problem in the list", page.Jobs, err)
	}

	s.problemSubmissions(t, stored.Digest)
	s.problemBatch(t, stored.Digest)
	s.regrade(t, p, stored.Digest, j.ID)
}

// problemSubmissions is what of a submission is refused.
func (s suite) problemSubmissions(t *testing.T, digest string) {
	t.Helper()
	unknown := sha("no problem")
	for name, test := range map[string]struct {
		spec    job.Spec
		field   string
		message string
	}{
		"no digest":              {job.Spec{Problem: "roman", Runtime: "python", Source: "1"}, "problem", "names no stored problem of this tenant"},
		"unknown digest":         {job.Spec{Problem: unknown, Runtime: "python", Source: "1"}, "problem", "names no stored problem of this tenant"},
		"tests beside":           {job.Spec{Problem: digest, Runtime: "python", Source: "1", Tests: []job.Test{{Name: "1"}}}, "tests", "is there beside problem"},
		"checker beside":         {job.Spec{Problem: digest, Runtime: "python", Source: "1", Checker: &job.Checker{}}, "checker", "is there beside problem"},
		"groups beside":          {job.Spec{Problem: digest, Runtime: "python", Source: "1", Groups: []job.Group{{}}}, "groups", "is there beside problem"},
		"another runtime":        {job.Spec{Problem: digest, Runtime: "cobol", Source: "1"}, "runtime", "is none that the problem allows"},
		"no runtime":             {job.Spec{Problem: digest, Source: "1"}, "runtime", "is missing"},
		"no source":              {job.Spec{Problem: digest, Runtime: "bash"}, "source", "is empty"},
		"large":                  {job.Spec{Problem: digest, Runtime: "bash", Source: strings.Repeat("x", 1025)}, "source", "is too large"},
		"another entrypoint":     {job.Spec{Problem: digest, Runtime: "python", Files: []job.File{{Name: "solution.py"}, {Name: "more.py"}}, Entrypoint: "solution.py"}, "entrypoint", "is not that of the problem"},
		"source beside a file":   {job.Spec{Problem: digest, Runtime: "python", Source: "1", Files: []job.File{{Name: "solution.py", Content: "1"}}}, "files[0].name", "can't be beside source"},
		"standard input":         {job.Spec{Problem: digest, Runtime: "python", Source: "1", Stdin: "1"}, "stdin", "can't be together with tests"},
		"streamed":               {job.Spec{Problem: digest, Runtime: "python", Source: "1", Stream: true}, "stream", "can't be together with tests"},
		"limits beyond the most": {job.Spec{Problem: digest, Runtime: "python", Source: "1", Limits: job.Limits{MemoryMB: 1 << 20}}, "limits.memory_mb", "is out of range"},
	} {
		_, err := s.jobs.Submit(t.Context(), test.spec)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != test.field || !strings.Contains(invalid[0].Message, test.message) {
			t.Errorf("%s: got %v, want %s: %s", name, err, test.field, test.message)
		}
	}
	// To another tenant, it is as if there were no such problem.
	_, other := s.other.Submit(t.Context(), job.Spec{Problem: digest, Runtime: "python", Source: "1"})
	_, none := s.other.Submit(t.Context(), job.Spec{Problem: unknown, Runtime: "python", Source: "1"})
	if diff := cmp.Diff(strings.ReplaceAll(fmt.Sprint(none), unknown, digest), fmt.Sprint(other)); none == nil || diff != "" {
		t.Errorf("another tenant's problem differs from none: %s", diff)
	}
	// A key is of what was sent.
	keyed := job.Spec{Problem: digest, Runtime: "python", Source: "1", IdempotencyKey: "submission 1"}
	first, err := s.jobs.Submit(t.Context(), keyed)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.jobs.Submit(t.Context(), keyed); err != nil || again.ID != first.ID {
		t.Errorf("the same under its key: got %s, %v, want %s", again.ID, err, first.ID)
	}
}

// problemBatch: each line of a batch may name a problem.
func (s suite) problemBatch(t *testing.T, digest string) {
	t.Helper()
	specs := []job.Spec{
		{Problem: digest, Runtime: "bash", Source: "1"},
		{Problem: sha("no problem"), Runtime: "bash", Source: "1"},
		{Runtime: "bash", Source: "1"},
		{Problem: digest, Runtime: "python", Source: "2"},
	}
	batches := s.jobs.(producer.Batches)
	b, err := batches.SubmitBatch(t.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		for _, spec := range specs {
			if !yield(spec, nil) {
				return
			}
		}
	})
	if err != nil || b.Jobs != 3 || b.Rejected != 1 || len(b.Errors) != 1 || b.Errors[0].Index != 1 || b.Errors[0].Errors[0].Field != "problem" {
		t.Fatalf("got %+v, %v", b, err)
	}
	for index, tests := range map[int]int{0: 2, 2: 0, 3: 2} {
		if spec := s.w.Start(t, job.ItemID(b.ID, index)).Spec; len(spec.Tests) != tests || spec.Problem != specs[index].Problem {
			t.Errorf("job %d: got %+v", index, spec)
		}
	}
}

// regrade: what a problem graded is graded by another one.
func (s suite) regrade(t *testing.T, p job.Problem, from, graded string) {
	t.Helper()
	own, ctx := s.jobs.(producer.Problems), t.Context()
	fixed := p
	fixed.Tests = []job.Test{{Name: "1", Stdin: "1\n", Answer: "I\n"}, {Name: "2", Stdin: "5\n", Answer: "V\n"}}
	fixed.Include = map[string]job.Include{"python": {Files: []job.File{{Name: "driver.py", Content: "import mine"}}, SourceName: "mine.py", Entrypoint: "driver.py"}}
	next, err := own.StoreProblem(ctx, fixed)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]producer.RegradeRequest{"an unknown problem": {From: sha("no problem")}, "none": {}, "itself": {From: next.Digest}} {
		var invalid job.Invalid
		if _, err := own.Regrade(ctx, next.Digest, r); !errors.As(err, &invalid) || invalid[0].Field != "from" {
			t.Errorf("regrade from %s: got %v, want what is wrong with from", name, err)
		}
	}
	if _, err := own.Regrade(ctx, sha("no problem"), producer.RegradeRequest{From: from}); !errors.Is(err, job.ErrNoProblem) {
		t.Errorf("regrade by none: got %v, want ErrNoProblem", err)
	}
	var invalid job.Invalid
	if _, err := own.Regrade(ctx, from, producer.RegradeRequest{From: next.Digest}); !errors.As(err, &invalid) || invalid[0].Field != "from" {
		t.Errorf("regrade what nobody has submitted: got %v, want what is wrong with from", err)
	}

	// Two more, of which one is purged; those of problemSubmissions and problemBatch have not ended.
	submit := func() string {
		j, err := s.jobs.Submit(ctx, job.Spec{Problem: from, Runtime: "bash", Source: "echo V", Metadata: map[string]string{"student": "43"}, Args: []string{"-v"}})
		if err != nil {
			t.Fatal(err)
		}
		s.w.End(t, s.w.Start(t, j.ID), nil, nil) //nolint:contextcheck // both are of the test
		return j.ID
	}
	kept, purged := submit(), submit()
	if err := s.jobs.(producer.Purger).Purge(ctx, purged); err != nil {
		t.Fatal(err)
	}
	answer, err := own.Regrade(ctx, next.Digest, producer.RegradeRequest{From: from, BatchOptions: job.BatchOptions{Metadata: map[string]string{"why": "a test was wrong"}}})
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	for _, left := range answer.LeftOut {
		reasons[left.Reason]++
	}
	if diff := cmp.Diff(map[string]int{"the job is no longer kept": 1, "the job had not ended by then": 3}, reasons); diff != "" || answer.LeftOutTotal != 4 {
		t.Errorf("left out are %d: %s", answer.LeftOutTotal, diff)
	}
	if b := answer.Batch; b.Jobs != 2 || b.Rejected != 0 || b.Metadata["why"] == "" {
		t.Fatalf("got %+v, want two jobs", b)
	}
	first, second := s.w.Start(t, job.ItemID(answer.Batch.ID, 0)), s.w.Start(t, job.ItemID(answer.Batch.ID, 1))
	want := []*job.Spec{
		{
			Problem: next.Digest, Runtime: "bash", Source: "echo V", Args: []string{"-v"}, Priority: job.Low, Metadata: map[string]string{"student": "43", job.RegradeKey: kept},
			Limits: job.Limits{CPUMS: 700, WallMS: 2000}, Tests: fixed.Tests, Checker: p.Checker, Groups: p.Groups,
		},
		{
			Problem: next.Digest, Runtime: "python", Entrypoint: "driver.py", Files: []job.File{{Name: "mine.py", Content: "def roman(n): pass"}, {Name: "driver.py", Content: "import mine"}},
			Limits: job.Limits{CPUMS: 700, WallMS: 3000}, Priority: job.Low, Metadata: map[string]string{"student": "42", job.RegradeKey: graded}, Tests: fixed.Tests, Checker: p.Checker, Groups: p.Groups,
		},
	}
	if diff := cmp.Diff(want, []*job.Spec{first.Spec, second.Spec}); diff != "" {
		t.Error(diff)
	}

	// Graded again, and once more: each submission is there once.
	s.w.End(t, first, nil, nil)
	keyed := producer.RegradeRequest{From: from, BatchOptions: job.BatchOptions{IdempotencyKey: "again"}}
	if _, err := own.Regrade(ctx, next.Digest, keyed); !errors.As(err, &invalid) || invalid[0].Field != "ended_before" {
		t.Errorf("with a key and no time: got %v", err)
	}
	now := time.Now()
	keyed.EndedBefore = &now
	again, err := own.Regrade(ctx, next.Digest, keyed)
	if err != nil || again.Batch.Jobs != 2 {
		t.Fatalf("got %+v, %v, want two jobs", again, err)
	}
	submit() // ends later
	if same, err := own.Regrade(ctx, next.Digest, keyed); err != nil || same.Batch.ID != again.Batch.ID || same.Batch.Jobs != 2 {
		t.Errorf("the same again: got %+v, %v, want batch %s", same, err, again.Batch.ID)
	}
	s.w.End(t, s.w.Start(t, job.ItemID(again.Batch.ID, 0)), nil, nil)
	back, err := own.Regrade(ctx, from, producer.RegradeRequest{From: next.Digest, Priority: job.High})
	if err != nil || back.Batch.Jobs != 1 || !slices.ContainsFunc(back.LeftOut, func(l producer.LeftOut) bool {
		return l.ID == first.ID && l.Reason == "a later job has graded the same submission"
	}) {
		t.Errorf("got %+v, %v, want one job", back, err)
	}
	if got := s.w.Start(t, job.ItemID(back.Batch.ID, 0)).Spec; got.Metadata[job.RegradeKey] != kept || got.Priority != job.High {
		t.Errorf("got %+v", got)
	}

	if err := own.DeleteProblem(ctx, from); err != nil {
		t.Fatal(err)
	}
	if err := own.DeleteProblem(ctx, from); !errors.Is(err, job.ErrNoProblem) {
		t.Errorf("delete it again: got %v, want ErrNoProblem", err)
	}
	if _, err := own.Regrade(ctx, next.Digest, producer.RegradeRequest{From: from}); !errors.As(err, &invalid) {
		t.Errorf("regrade from one that is deleted: got %v", err)
	}
}
