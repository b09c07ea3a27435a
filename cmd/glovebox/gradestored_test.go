package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestGradeStored: by its digest, a problem grades as its folder does, and its jobs can be listed.
func TestGradeStored(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{".timelimit": "1"}))
	digest := b.upload(dir)
	good, wrong := b.file("good.py", "#good"), b.file("wrong.py", "#wrong")
	folder := filepath.Join(filepath.Dir(good), "folder")
	for name, text := range map[string]string{"main.py": "#good", "more.py": "x = 1"} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, code := b.glovebox("", "grade", "--problem", digest, good, wrong, folder)
	if code != exitFailed {
		t.Errorf("got exit code %d: %s", code, stderr)
	}
	contains(t, "several", stdout, `good.py +accepted +3 / 3 tests`, `wrong.py +wrong answer +1 / 3 tests +10 ms +secret/1`, `folder +accepted +3 / 3 tests`)
	stdout, stderr, code = b.glovebox("", "grade", "--problem", digest, "--json", good)
	var report gradeReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitOK || report.Problem != digest || report.Submissions[0].Verdict != job.Accepted {
		t.Errorf("got %s, exit code %d, %v: %s", stdout, code, err, stderr)
	}
	stdout, _, code = b.glovebox("", "grade", "--problem", digest, "--format", "exercism", wrong)
	if code != exitFailed || !strings.Contains(stdout, `"status": "fail"`) {
		t.Errorf("got %s, exit code %d", stdout, code)
	}

	if stdout, stderr, code = b.glovebox("", "submit", "--runtime", "python", "--run-at", time.Now().Add(time.Hour).Format(time.RFC3339), good); code != exitOK { // of no problem
		t.Errorf("got %s, exit code %d: %s", stdout, code, stderr)
	}
	stdout, stderr, _ = b.glovebox("", "list", "--problem", digest, "--json")
	var page producer.JobPage
	if err := json.Unmarshal([]byte(stdout), &page); err != nil || len(page.Jobs) != 5 || page.Jobs[4].ID == "" {
		t.Errorf("got %d jobs of %s, want the 5 that the problem graded: %v: %s", len(page.Jobs), stdout, err, stderr)
	}

	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"nothing to grade", "no SUBMISSION", []string{"grade", "--problem", digest}},
		{"a time limit", "has its own", []string{"grade", "--problem", digest, "--time-limit", "2s", good}},
		{"an unknown digest", "names no stored problem", []string{"grade", "--problem", strings.Repeat("0", 64), good}},
		{"no digest", "problem: is no digest of a problem (got abc)", []string{"list", "--problem", "abc"}},
	} {
		if _, stderr, code := b.glovebox("", tt.args...); code != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: got exit code %d, %s; want 2, %q", tt.name, code, stderr, tt.want)
		}
	}
}

// TestGradeStoredScores: by its digest, a scoring problem gives the points that it gives as a folder, on every platform.
func TestGradeStoredScores(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(map[string]string{
		"problem.yaml": "problem_format_version: 2025-09\nname: Adding\ntype: scoring\n", ".timelimit": "1",
		"data/sample/1.in": "1 2\n", "data/sample/1.ans": "3\n",
		"data/secret/easy/1.in": "1 2\n", "data/secret/easy/1.ans": "3\n", "data/secret/easy/test_group.yaml": "max_score: 40\nscore_aggregation: sum\n",
		"data/secret/hard/1.in": "1 2\n", "data/secret/hard/1.ans": "3\n", "data/secret/hard/test_group.yaml": "max_score: 60\nscore_aggregation: sum\n",
	})
	digest := b.upload(dir)
	good, wrong, half, nonsense := b.file("good.py", "#good"), b.file("wrong.py", "#wrong"), b.file("easy.py", "#easy"), b.file("nonsense.py", "#nonsense")
	for _, args := range [][]string{
		{"--format", "gradescope", good},
		{"--format", "gradescope", half},
		{"--format", "gradescope", nonsense},
		{good, wrong, half, nonsense},
		{half},
	} {
		folder, _, code := b.glovebox("", append([]string{"grade", "--problem", dir}, args...)...)
		stored, stderr, storedCode := b.glovebox("", append([]string{"grade", "--problem", digest}, args...)...)
		if diff := cmp.Diff(folder, stored); diff != "" || code != storedCode {
			t.Errorf("%v: exit code %d, by digest %d: %s%s", args, code, storedCode, stderr, diff)
		}
	}
	stdout, _, _ := b.glovebox("", "grade", "--problem", digest, "--format", "gradescope", half)
	contains(t, "easy alone", stdout, `"score": 40,`)
	stdout, _, _ = b.glovebox("", "grade", "--problem", digest, "--json", half)
	var report gradeReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.MaxScore == nil || *report.MaxScore != 100 {
		t.Errorf("got %s, %v, want a max_score of 100", stdout, err)
	}
}

// TestGradeStoredRefused: a submission that the API refuses is not judged, as by the problem's folder, and the others are.
func TestGradeStoredRefused(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{
		"problem.yaml": "problem_format_version: 2025-09\nname: Adding\ntype: pass-fail\nlanguages: [python3]\n", ".timelimit": "1",
	}))
	digest := b.upload(dir)
	good, big, shell := b.file("good.py", "#good"), b.file("big.py", "#good\n"+strings.Repeat("#", 200<<10)), b.file("shell.sh", "#good")
	for _, problem := range []string{dir, digest} {
		stdout, stderr, code := b.glovebox("", "grade", "--problem", problem, big, good, shell)
		if code != exitGlovebox {
			t.Errorf("got exit code %d, want %d; it said:\n%s", code, exitGlovebox, stderr)
		}
		contains(t, problem, stdout, `big.py +not judged`, `good.py +accepted +3 / 3 tests`, `shell.sh +not judged`)
	}
	stdout, _, _ := b.glovebox("", "grade", "--problem", digest, "--json", big, good)
	contains(t, "why", stdout, `"error": "source: is too large`)
	// Where none is taken, there is nothing to report on.
	if stdout, stderr, code := b.glovebox("", "grade", "--problem", digest, big, shell); code != exitUsage || stdout != "" || !strings.Contains(stderr, "source: is too large") {
		t.Errorf("got exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestGradeWithinMaximums: limits that a package doesn't give itself are lowered to what its tenant may have, in a job and as it is stored.
func TestGradeWithinMaximums(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	if _, err := b.Records.CreateTenant(t.Context(), "default", job.Terms{Maximums: job.Limits{StackMB: 16, MemoryMB: 400}}); err != nil {
		t.Fatal(err)
	}
	specs := make(chan job.Spec, 1)
	b.endJobs(func(j record.Record) {
		specs <- *j.Spec
		b.End(b.t, j, nil, func(r *job.Result) {
			if err := judged(*j.Spec, r); err != nil {
				b.t.Errorf("judge: %v", err)
			}
		})
	})
	dir := b.problem(small(map[string]string{
		"problem.yaml": "validation: custom\nlimits: {memory: 300, output: 64}\n", "output_validators/v.py": "", ".timelimit": "1",
	}))
	if stdout, stderr, code := b.glovebox("", "grade", "--problem", dir, b.file("good.py", "#good")); code != exitOK {
		t.Fatalf("got exit code %d, %s%s", code, stdout, stderr)
	}
	if got := <-specs; got.Limits.StackMB != 16 || got.Checker.Program.Limits.MemoryMB != 400 {
		t.Errorf("got %+v, of the validator %+v; want a stack of 16 MiB and 400 MiB", got.Limits, got.Checker.Program.Limits)
	}
	stdout, _, _ := b.glovebox("", "problem", "show", b.upload(dir))
	contains(t, "stored", stdout, `"stack_mb": 16`, `"memory_mb": 400`)
	// What the package says itself is not changed.
	mine := b.problem(small(map[string]string{
		"problem.yaml": "validation: custom\nlimits: {memory: 300, validation_memory: 500}\n", "output_validators/v.py": "", ".timelimit": "1",
	}))
	if _, stderr, code := b.glovebox("", "grade", "--problem", mine, b.file("good.py", "#good")); code != exitUsage || !strings.Contains(stderr, "checker.program.limits.memory_mb: is out of range (got 500)") {
		t.Errorf("got exit code %d, %s", code, stderr)
	}
}

// upload stores a problem.
func (b *batchTest) upload(dir string) (digest string) {
	b.t.Helper()
	stdout, stderr, code := b.glovebox("", "problem", "upload", dir)
	if digest = strings.TrimSpace(stdout); code != exitOK || !job.IsSHA256(digest) {
		b.t.Fatalf("upload: got %q, exit code %d: %s", digest, code, stderr)
	}
	return digest
}

// TestGradeStoredDriver: where the problem has what is started, programs of any form are graded, as by its folder.
func TestGradeStoredDriver(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{".timelimit": "1", "include/python3/main.py": "#good\nimport solution\n"}))
	digest := b.upload(dir)
	folders := b.problem(map[string]string{"py/solution.py": "#good", "py/util.py": "#good"}) // no problem, but a folder
	latin := b.file("latin.py", "#good\n# caf\xe9\n")
	good := b.file("solution.py", "#good")
	stdout, stderr, code := b.glovebox("", "grade", "--problem", digest, good, latin, filepath.Join(folders, "py"))
	if code != exitOK {
		t.Errorf("got exit code %d, %s%s", code, stdout, stderr)
	}
	for _, program := range []string{good, latin} {
		if stdout, stderr, code := b.glovebox("", "submit", "--runtime", "python", "--problem", digest, program); code != exitOK {
			t.Errorf("submit %s: got exit code %d, %s%s", program, code, stdout, stderr)
		}
	}
}
