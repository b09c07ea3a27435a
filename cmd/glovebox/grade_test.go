package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// judges ends graded jobs until the test does, as a worker would: by the word that a program begins
// with after a #, it prints the answer, something else, takes that many milliseconds, crashes or does
// not compile. e2e has the same on real sandboxes.
func (b *batchTest) judges() {
	b.endJobs(func(j record.Record) {
		b.End(b.t, j, nil, func(r *job.Result) {
			if err := judged(*j.Spec, r); err != nil {
				b.t.Errorf("judge: %v", err)
			}
		})
	})
}

func judged(spec job.Spec, r *job.Result) error {
	program := spec.Source
	if program == "" {
		program = spec.Files[0].Content
	}
	word, number, _ := strings.Cut(strings.TrimPrefix(strings.Split(program, "\n")[0], "#"), " ")
	if word == "nonsense" {
		r.Status, r.Verdict, r.Compile = job.CompileFailed, job.VerdictCompileFailed, &job.Compile{ExitCode: 1, Output: "what is nonsense?"}
		return nil
	}
	if word == "lost" {
		r.Status, r.Error = job.InternalError, &job.Error{Code: "internal", Message: "the worker was lost"}
		return nil
	}
	j, err := grading.NewJudgement(spec.Tests, spec.Groups)
	if err != nil {
		return err
	}
	took := int64(10)
	if number != "" {
		if _, err := fmt.Sscan(number, &took); err != nil {
			return err
		}
	}
	for i := range spec.Tests {
		v := job.Accepted
		switch {
		case !j.Wanted(i):
			continue
		case took > spec.Limits.CPUMS:
			v = job.TestTimedOut
		case word == "wrong" && strings.HasPrefix(spec.Tests[i].Name, "secret"):
			v = job.WrongAnswer
		case word == "easy" && strings.HasPrefix(spec.Tests[i].Name, "secret/hard"):
			v = job.WrongAnswer
		case word == "unjudged":
			v = job.JudgeError
		case word == "crash":
			v = job.RunTimeError
		}
		j.Set(i, v, nil)
	}
	w := j.Whole()
	r.Verdict, r.Score, r.MaxScore, r.Groups = w.Verdict, &w.Score, &w.MaxScore, w.Groups
	for i, s := range w.Tests {
		t := job.TestResult{Name: spec.Tests[i].Name, Group: spec.Tests[i].Group, Verdict: s.Verdict, Score: s.Score, MaxScore: s.MaxScore, Hidden: spec.Tests[i].Hidden}
		if s.Verdict != job.SkippedTest {
			t.Usage = &job.Usage{CPUMS: min(took, spec.Limits.CPUMS), WallMS: took, MemoryPeakBytes: 1 << 20}
		}
		if s.Verdict == job.RunTimeError && !t.Hidden {
			one := 1
			t.ExitCode = &one
		}
		r.Tests = append(r.Tests, t)
	}
	return nil
}

// problem writes a package of file names and texts, and returns its folder.
func (b *batchTest) problem(files map[string]string) string {
	b.t.Helper()
	dir := filepath.Join(b.t.TempDir(), "adding")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			b.t.Fatal(err)
		}
	}
	return dir
}

// small has three tests, and no time limit.
func small(more map[string]string) map[string]string {
	files := map[string]string{}
	for _, t := range []string{"sample/1", "secret/1", "secret/2"} {
		files["data/"+t+".in"], files["data/"+t+".ans"] = "1 2\n", "3\n"
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

func contains(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: got\n%s\nwant %s in it", what, text, want)
		}
	}
}

func TestGrade(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{".timelimit": "1"}))
	good, wrong, crash := b.file("good.py", "#good"), b.file("wrong.py", "#wrong"), b.file("crash.py", "#crash")
	nonsense, lost := b.file("nonsense.py", "#nonsense"), b.file("lost.py", "#lost")

	tests := []struct {
		name  string
		args  []string
		code  int
		wants []string
	}{
		{"accepted", []string{good}, exitOK, []string{`good.py: accepted, 3 / 3 tests`, `secret/2 +accepted +10 ms +1 MiB`}},
		{"wrong", []string{wrong}, exitFailed, []string{`wrong answer, 1 / 3 tests`, `secret/1 +wrong answer +10 ms`, `secret/2 +skipped`}},
		{"crash", []string{crash}, exitFailed, []string{`sample/1 +run time error .*exit code 1`}},
		{"does not compile", []string{nonsense}, exitFailed, []string{`compile failed`, `what is nonsense\?`}},
		{"too slow", []string{b.file("slow.py", "#good 1001")}, exitFailed, []string{`timed out, 0 / 3`}},
		{"a limit of one's own", []string{"--time-limit", "2s", b.file("slow2.py", "#good 1001")}, exitOK, []string{`accepted`}},
		{"several", []string{good, wrong, crash}, exitFailed, []string{`good.py +accepted +3 / 3 tests`, `wrong.py +wrong answer +1 / 3 tests +10 ms +secret/1`, `crash.py +run time error`}},
		{"lost", []string{good, lost}, exitGlovebox, []string{`lost.py +not judged .*the worker was lost`}},
		{"no runtime", []string{good, b.file("a.cob", "x")}, exitGlovebox, []string{`a.cob +not judged .*no language goes by the names`}},
	}
	for _, tt := range tests {
		stdout, stderr, code := b.glovebox("", append([]string{"grade", "--problem", dir}, tt.args...)...)
		if code != tt.code {
			t.Errorf("%s: got exit code %d, want %d; it said:\n%s", tt.name, code, tt.code, stderr)
		}
		contains(t, tt.name, stdout, tt.wants...)
	}

	stdout, _, code := b.glovebox("", "grade", "--problem", dir, "--format", "json", wrong)
	var report gradeReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitFailed {
		t.Fatalf("exit code %d, %v in\n%s", code, err, stdout)
	}
	if s := report.Submissions[0]; report.TimeLimitMS != 1000 || s.Verdict != job.WrongAnswer || len(s.Tests) != 3 || !s.Tests[1].Hidden {
		t.Errorf("got %+v", report)
	}

	stdout, _, _ = b.glovebox("", "grade", "--problem", dir, "--format", "junit", wrong, nonsense, lost)
	var suites junitSuites
	if err := xml.Unmarshal([]byte(stdout), &suites); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	for i, want := range []string{"3 1 0 1", "1 1 0 0", "1 0 1 0"} {
		s := suites.Suites[i]
		if got := fmt.Sprint(s.Tests, s.Failures, s.Errors, s.Skipped); got != want {
			t.Errorf("suite %d: got tests, failures, errors, skipped of %s, want %s in\n%s", i, got, want, stdout)
		}
	}
}

// TestGradeDerives: a problem without a time limit gets one from its own submissions, or the default.
func TestGradeDerives(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	slow := b.file("slow.py", "#good 3000")
	stdout, stderr, code := b.glovebox("", "grade", "--problem", b.problem(small(map[string]string{"submissions/accepted/a.py": "#good 700"})), slow)
	if code != exitOK {
		t.Errorf("got exit code %d: %s%s", code, stdout, stderr)
	}
	contains(t, "derived", stderr, `time limit 4s: accepted/a.py took 700 ms on sample/1`)
	stdout, stderr, code = b.glovebox("", "grade", "--problem", b.problem(small(nil)), slow)
	if code != exitFailed {
		t.Errorf("got exit code %d: %s%s", code, stdout, stderr)
	}
	contains(t, "default", stderr, `taking 2s`)
}

// TestGradeDerivesFromJudged: no time limit follows from a submission that was not judged, or is not as expected; none is stored or kept.
func TestGradeDerivesFromJudged(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	good := b.file("good.py", "#good")
	for _, tt := range []struct {
		program, want string
		code, check   int
	}{
		{"#lost", `accepted/a.py was not judged: the worker was lost`, exitGlovebox, exitGlovebox},
		{"#unjudged", `accepted/a.py was not judged: judge error`, exitGlovebox, exitGlovebox},
		{"#crash", `accepted/a.py is not as expected: is run_time_error; accepted/ expects accepted`, exitUsage, exitFailed},
		{"#nonsense", `accepted/a.py is not as expected: does not compile`, exitUsage, exitFailed},
	} {
		dir := b.problem(small(map[string]string{"submissions/accepted/a.py": tt.program, "submissions/accepted/b.py": "#good"}))
		for _, args := range [][]string{{"grade", "--problem", dir, good}, {"problem", "upload", dir}} {
			stdout, stderr, code := b.glovebox("", args...)
			if code != tt.code || stdout != "" {
				t.Errorf("%s, %s: got exit code %d, want %d; it said:\n%s", tt.program, args[0], code, tt.code, stdout)
			}
			contains(t, tt.program, stderr, tt.want)
		}
		_, stderr, code := b.glovebox("", "problem", "check", "--write-time-limit", dir)
		if code != tt.check {
			t.Errorf("%s, check: got exit code %d, want %d", tt.program, code, tt.check)
		}
		contains(t, tt.program, stderr, `the time limit is not kept`)
		if text, err := os.ReadFile(filepath.Join(dir, ".timelimit")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, check: got %q, %v in .timelimit", tt.program, text, err)
		}
	}
}

// TestGradeUnread: a submission that can't be read is not judged, and the others are. One that isn't there is an error.
func TestGradeUnread(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	dir := b.problem(small(map[string]string{".timelimit": "1"}))
	digest := b.upload(dir)
	good, empty, linked, large := b.file("good.py", "#good"), filepath.Join(b.dir, "empty"), filepath.Join(b.dir, "linked"), filepath.Join(b.dir, "large")
	for _, folder := range []string{empty, linked, large} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(linked, "x.py")); err != nil {
		t.Fatal(err)
	}
	b.file("large/x.py", strings.Repeat("#", 16<<20+1))
	for _, problem := range []string{dir, digest} {
		stdout, stderr, code := b.glovebox("", "grade", "--problem", problem, empty, linked, good, large)
		if code != exitGlovebox {
			t.Errorf("got exit code %d, want %d; it said:\n%s", code, exitGlovebox, stderr)
		}
		contains(t, problem, stdout, `empty +not judged .* has no files`, `linked +not judged .* x.py: can't be read`,
			`good.py +accepted +3 / 3 tests`, `large +not judged .* x.py: is larger than 16777216 bytes`)
		if stdout, stderr, code := b.glovebox("", "grade", "--problem", problem, empty); code != exitUsage || stdout != "" || !strings.Contains(stderr, "has no files") {
			t.Errorf("none that can be read: got exit code %d, %s%s", code, stdout, stderr)
		}
		missing := filepath.Join(b.dir, "missing")
		if stdout, stderr, code := b.glovebox("", "grade", "--problem", problem, good, missing); code != exitUsage || stdout != "" || !strings.Contains(stderr, missing) {
			t.Errorf("one that isn't there: got exit code %d, %s%s", code, stdout, stderr)
		}
	}
}

// TestGradeUploads: what is too large for jobs is uploaded once, bytes that are no text too.
func TestGradeUploads(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	large := strings.Repeat("\x00\xff", inlineData)
	dir := b.problem(small(map[string]string{".timelimit": "1", "data/secret/1.in": large, "data/secret/2.in": large, "data/secret/2.ans": "\xff"}))
	good := b.file("good.py", "#good")
	stdout, stderr, code := b.glovebox("", "grade", "--problem", dir, good, good)
	if code != exitOK {
		t.Errorf("got exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestProblemCheck(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	b.judges()
	good := map[string]string{
		"problem.yaml":                           "problem_format_version: 2025-09\nname: Adding\n",
		"submissions/accepted/a.py":              "#good 700",
		"submissions/accepted/quick.py":          "#good",
		"submissions/wrong_answer/w.py":          "#wrong",
		"submissions/run_time_error/c.py":        "#crash",
		"submissions/time_limit_exceeded/t.py":   "#good 5000",
		"submissions/time_limit_exceeded/u.py":   "#good 3000",
		"submissions/drafts/whatever.py":         "#good",
		"submissions/brute_force/forever.py":     "#good 100000",
		"submissions/rejected/does_not_pass.py":  "#wrong",
		"submissions/partially_accepted/some.py": "#good",
	}
	dir := b.problem(small(good))
	stdout, stderr, code := b.glovebox("", "problem", "check", "--write-time-limit", dir)
	if code != exitOK {
		t.Errorf("got exit code %d: %s%s", code, stdout, stderr)
	}
	contains(t, "as expected", stdout,
		`Adding: time limit 2 s, derived`, `accepted/a.py +accepted +– +700 ms +yes`, `wrong_answer/w.py +wrong answer .*yes`,
		`run_time_error/c.py +run time error .*yes`, `time_limit_exceeded/u.py +timed out .*yes`, `drafts/whatever.py +not judged .*nothing says what is expected`,
	)
	if text, err := os.ReadFile(filepath.Join(dir, ".timelimit")); err != nil || string(text) != "2\n" {
		t.Errorf("got %q, %v in .timelimit", text, err)
	}
	if _, _, code := b.glovebox("", "grade", "--problem", dir); code != exitOK {
		t.Errorf("grade without a submission: got exit code %d", code)
	}

	for _, bad := range []struct{ name, file, text, want string }{
		{"accepted is wrong", "submissions/accepted/x.py", "#wrong", `accepted/x.py +wrong answer .*NO: is wrong_answer on secret/1; accepted/ permits accepted`},
		{"not too slow", "submissions/time_limit_exceeded/x.py", "#good 1000", `time_limit_exceeded/x.py +accepted .*NO: comes to timed_out on no test`},
		{"not too slow by a margin", "submissions/time_limit_exceeded/x.py", "#good 2100", `time_limit_exceeded/x.py +timed out .*NO: the time limit is 2s; .* takes 2.1s, and has to take 3 s`},
		{"does not compile", "submissions/accepted/x.py", "#nonsense", `accepted/x.py +compile failed .*NO: does not compile`},
	} {
		files := small(good)
		files[bad.file] = bad.text
		stdout, stderr, code := b.glovebox("", "problem", "check", b.problem(files))
		if code != exitFailed {
			t.Errorf("%s: got exit code %d: %s", bad.name, code, stderr)
		}
		contains(t, bad.name, stdout, bad.want)
	}
}

func TestProblemInit(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t)
	dir := filepath.Join(b.dir, "sum")
	if _, stderr, code := b.glovebox("", "problem", "init", dir); code != exitOK {
		t.Fatalf("got exit code %d: %s", code, stderr)
	}
	if _, stderr, code := b.glovebox("", "problem", "init", dir); code != exitUsage || !strings.Contains(stderr, "is there already") {
		t.Errorf("once more: got exit code %d: %s", code, stderr)
	}
	stdout, stderr, code := b.glovebox("", "problem", "check", "--dry-run", dir)
	if code != exitOK {
		t.Errorf("got exit code %d: %s", code, stderr)
	}
	contains(t, "what it has", stdout, `tests +2, of which 1 are hidden`, `checker +default`, `submissions +2`)
	dir = b.problem(small(map[string]string{"problem.yaml": "validator_flags: float_tolerance 1\n", "data/secret/2.yaml": "output_validator_args: [case_sensitive]\n"}))
	if stdout, stderr, code = b.glovebox("", "problem", "check", "--dry-run", dir); code != exitOK {
		t.Errorf("got exit code %d: %s", code, stderr)
	}
	contains(t, "arguments by test", stdout, `checker +default float_tolerance 1, with more in some tests`)
}
