package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestGradeCommand judges by problem packages as a user does, in Python and C: the one that "glovebox
// problem init" writes, and a scoring one whose groups end early.
func TestGradeCommand(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	dir := t.TempDir()
	glovebox := func(want int, args ...string) (stdout string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+dir)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("glovebox %s: got exit code %d (%v), want %d; it said\n%s%s", strings.Join(args, " "), code, err, want, out, errs.String())
		}
		return string(out)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	contains := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("got\n%s\nwant %s in it", text, want)
			}
		}
	}

	glovebox(0, "problem", "init", "sum")
	contains(glovebox(0, "problem", "check", "--write-time-limit", "sum"), `accepted/sum.py +accepted .*yes`, `wrong_answer/difference.py +wrong answer .*yes`)
	write("right.c", "#include <stdio.h>\nint main(void) { long a, b; scanf(\"%ld %ld\", &a, &b); printf(\"%ld\", a + b); }\n")
	write("wrong.py", "print(3)\n")
	write("slow.py", "while True: pass\n")
	write("crash.py", "a, b = map(int, input().split())\nprint(a + b, flush=True)\nraise SystemExit(3)\n")
	write("nonsense.c", "this is no C\n")
	contains(glovebox(0, "grade", "--problem", "sum", "right.c"), `right.c: accepted, 2 / 2 tests`)
	contains(glovebox(1, "grade", "--problem", "sum", "--time-limit", "4s", "right.c", "wrong.py", "slow.py", "crash.py", "nonsense.c"),
		`right.c +accepted +2 / 2 tests`, `wrong.py +wrong answer +1 / 2 tests .*secret/1`, `slow.py +timed out +0 / 2`, `crash.py +run time error +0 / 2`, `nonsense.c +compile failed`)

	// Two groups of 30 and 70 points; the second has an input that is uploaded, and bytes that are no text.
	write("scored/problem.yaml", "problem_format_version: 2025-09\ntype: scoring\nlimits: {time_limit: 10, memory: 256}\n")
	for name, input := range map[string]string{"g1/1": "1\n", "g1/2": "12\n", "g2/1": strings.Repeat("x", 300<<10), "g2/2": "\x00\xff\n", "g2/3": "4\n"} {
		write("scored/data/secret/"+name+".in", input)
		write("scored/data/secret/"+name+".ans", strconv.Itoa(len(input))+"\n")
	}
	write("scored/data/secret/g1/test_group.yaml", "max_score: 30\nfull_feedback: true\n")
	write("scored/data/secret/g2/test_group.yaml", "max_score: 70\nfull_feedback: true\n")
	write("all.py", "import sys\nprint(len(sys.stdin.buffer.read()))\n")
	write("short.py", "import sys\nprint(min(len(sys.stdin.buffer.read()), 9))\n")
	contains(glovebox(0, "grade", "--problem", "scored", "all.py"), `all.py: accepted, 100 / 100`, `secret/g2 +accepted +70 / 70`)
	var report struct {
		Submissions []struct {
			Verdict job.Verdict
			Score   float64
			Tests   []job.TestResult
		}
	}
	if err := json.Unmarshal([]byte(glovebox(1, "grade", "--problem", "scored", "--format", "json", "short.py")), &report); err != nil {
		t.Fatal(err)
	}
	s := report.Submissions[0]
	var verdicts []job.Verdict
	for _, r := range s.Tests {
		verdicts = append(verdicts, r.Verdict)
	}
	want := []job.Verdict{job.Accepted, job.Accepted, job.WrongAnswer, job.SkippedTest, job.SkippedTest}
	if s.Score != 30 || !slices.Equal(verdicts, want) {
		t.Fatalf("got a score of %v and %v; want 30 and %v", s.Score, verdicts, want)
	}
	if d := s.Tests[2].Difference; d == nil || d.Want != "307200" || d.Got != "9" || s.Tests[0].Stdout != "2\n" {
		t.Errorf("got the difference %+v, and %q of the first test", d, s.Tests[0].Stdout)
	}
}
