package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// TestProblemByDigest: a problem is uploaded once, submissions name it, a wrong test of it is corrected, and all are graded again.
func TestProblemByDigest(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	dir := t.TempDir()
	glovebox := func(args ...string) (stdout string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+dir)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("glovebox %s: %v; it said\n%s%s", strings.Join(args, " "), err, out, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The student writes double, which a driver calls in Python and a grader in C. The second test is wrong, and the third has an
	// input that is uploaded.
	glovebox("problem", "init", "double")
	for _, name := range []string{"data", "submissions"} {
		if err := os.RemoveAll(filepath.Join(dir, "double", name)); err != nil {
			t.Fatal(err)
		}
	}
	write("double/.timelimit", "10\n")
	write("double/include/python3/main.py", "from solution import double\nprint(double(int(input())))\n")
	write("double/include/c/grader.c", "#include <stdio.h>\nlong twice(long n);\nint main(void) { long n; scanf(\"%ld\", &n); printf(\"%ld\\n\", twice(n)); }\n")
	write("double/submissions/accepted/python/solution.py", "def double(n): return 2 * n\n")
	for name, text := range map[string]string{"sample/1.in": "4\n", "sample/1.ans": "8\n", "secret/1.in": "21\n", "secret/1.ans": "41\n", "secret/2.in": strings.Repeat(" ", 20<<10) + "7\n", "secret/2.ans": "14\n"} {
		write("double/data/"+name, text)
	}
	first := glovebox("problem", "upload", "double")
	if again := glovebox("problem", "upload", "double"); again != first || !job.IsSHA256(first) {
		t.Fatalf("got %s and %s, want one digest", first, again)
	}
	var shown job.StoredProblem
	if err := json.Unmarshal([]byte(glovebox("problem", "show", first)), &shown); err != nil {
		t.Fatal(err)
	}
	if include := shown.Problem.Include["python"]; include.SourceName != "solution.py" || include.Entrypoint != "main.py" || shown.Problem.Include["c"].Commands == nil || shown.Problem.Tests[2].StdinUpload == "" || shown.Problem.Tests[1].Answer != "41\n" {
		t.Errorf("got %+v", shown)
	}

	submit := func(runtime, source string) (spec job.Spec, r job.Result) {
		t.Helper()
		spec = job.Spec{Problem: first, Runtime: runtime, Source: source, Metadata: map[string]string{"of": runtime}}
		return spec, g.wait(g.submit(spec))
	}
	// What lies beside a submission is its own, and the driver.
	const lists = "import os, sys\nsys.stderr.write(' '.join(sorted(os.listdir('.'))))\ndef double(n): return 2 * n\n"
	sent, python := submit("python", lists)
	if python.Verdict != job.WrongAnswer || python.Problem != first || python.Tests[0].Verdict != job.Accepted || python.Tests[0].Stderr != "main.py solution.py" || python.Tests[1].Verdict != job.WrongAnswer || python.Tests[1].Stdout != "" {
		t.Errorf("python: got %+v", python)
	}
	if _, c := submit("c", "long twice(long n) { return n + n; }\n"); c.Verdict != job.WrongAnswer || c.Tests[0].Verdict != job.Accepted {
		t.Errorf("c: got %s %+v, %+v", c.Verdict, c.Tests, c.Compile)
	}
	if _, wrong := submit("c", "long twice(long n) { return n * n / 2; }\n"); wrong.Tests[0].Verdict != job.Accepted || wrong.Tests[1].Verdict != job.WrongAnswer {
		t.Errorf("wrong: got %+v", wrong.Tests)
	}
	if code, _, errs := exitOf(t, dir, g, "submit", "--wait", "--problem", strings.Repeat("0", 64), "double/submissions/accepted/python/solution.py"); code != 2 || !strings.Contains(errs, "problem: names no stored problem") {
		t.Errorf("an unknown digest: got %d, %s", code, errs)
	}

	// What is attested is the whole of it, as if it had been sent so.
	keys, err := g.client.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := shown.Problem.Expand(sent)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := attest.Verify(python, keys); err != nil {
		t.Error(err)
	} else if want, err := attest.InputHash(whole); err != nil || v.Statement.Predicate.InputHash != want {
		t.Errorf("the input hash is %s, want %s, %v", v.Statement.Predicate.InputHash, want, err)
	}

	write("double/data/secret/1.ans", "42\n")
	second := glovebox("problem", "upload", "double")
	if second == first {
		t.Fatal("another test, and the same digest")
	}
	glovebox("problem", "regrade", second, "--from", first, "--out", "regraded")
	text, err := os.ReadFile(filepath.Join(dir, "regraded", "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []job.Verdict
	for line := range strings.Lines(string(text)) {
		var r job.BatchResult
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Result == nil || r.Result.Problem != second {
			t.Fatalf("got %s, %v", line, err)
		}
		verdicts = append(verdicts, r.Result.Verdict)
	}
	if len(verdicts) != 3 || verdicts[0] != job.WrongAnswer || verdicts[1] != job.Accepted || verdicts[2] != job.Accepted {
		t.Errorf("graded again: got %v", verdicts)
	}
	if list := glovebox("problem", "list"); !strings.Contains(list, first) || !strings.Contains(list, second) {
		t.Errorf("got %s", list)
	}
	glovebox("problem", "rm", first)

	weighSubmissions(t, g, shown.Problem.Limits)
}

// exitOf runs glovebox, and returns how that ended.
func exitOf(t *testing.T, dir string, g *glovebox, args ...string) (code int, out, errs string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+dir)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// weighSubmissions logs what a submission by digest takes beside the same as a whole.
func weighSubmissions(t *testing.T, g *glovebox, limits job.Limits) {
	t.Helper()
	large := job.Problem{Name: "large", Limits: limits}
	for range 100 {
		large.Tests = append(large.Tests, job.Test{Name: strings.Repeat("x", len(large.Tests)+1), Stdin: strings.Repeat("1000003\n", 300), Answer: "300000900\n"})
	}
	head, err := g.client.StoreProblem(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	sub := job.Spec{Problem: head.Digest, Runtime: "python", Source: strings.Repeat("# a line of the program\n", 80), RunAt: time.Now().Add(time.Hour)}
	whole, err := large.Expand(sub)
	if err != nil {
		t.Fatal(err)
	}
	whole.Problem = ""
	took := map[string]time.Duration{}
	for name, spec := range map[string]job.Spec{"by digest": sub, "whole": whole} {
		b, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		const times = 10
		began := time.Now()
		for range times {
			j, err := g.client.Submit(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.client.Cancel(t.Context(), j.ID); err != nil {
				t.Fatal(err)
			}
		}
		took[name] = time.Since(began) / times
		t.Logf("100 tests of 2.4 KB, %s: %d bytes a submission, %v to submit and cancel it", name, len(b), took[name])
		if name == "by digest" && len(b) > 4<<10 {
			t.Errorf("a submission by digest has %d bytes", len(b))
		}
	}
}
