package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestGradeByDigest: what a problem's folder comes to, its digest comes to: for programs whose file has to have its name, of several files, in
// Latin-1, with a driver of the problem and with a grader that is compiled with them.
func TestGradeByDigest(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"double/problem.yaml":            "problem_format_version: 2025-09\nname: Double\ntype: scoring\n",
		"double/.timelimit":              "10\n",
		"double/data/secret/1.in":        "21\n",
		"double/data/secret/1.ans":       "42\n",
		"double/data/secret/2.in":        "4\n",
		"double/data/secret/2.ans":       "8\n",
		"double/include/python3/main.py": "from solution import double\nprint(double(int(input())))\n",
		"double/include/cpp/grader.cpp":  "#include <cstdio>\nlong twice(long);\nint main() { long n; scanf(\"%ld\", &n); printf(\"%ld\\n\", twice(n)); }\n",

		"Sum.java":           "public class Sum { public static void main(String[] a) { System.out.println(2 * new java.util.Scanner(System.in).nextInt()); } }\n",
		"solution.py":        "def double(n): return 2 * n\n",
		"half/solution.py":   "def double(n): return 42\n",
		"latin/solution.py":  "# coding: latin-1\n# caf\xe9\ndef double(n): return 2 * n\n",
		"folder/solution.py": "from util import two\ndef double(n): return two * n\n",
		"folder/util.py":     "two = 2\n",
		"cheat/main.py":      "print(2 * int(input()))\n", // the driver is in its place, and finds no solution
		"cheat/more.py":      "",
		"several/twice.cpp":  "long two();\nlong twice(long n) { return two() * n; }\n",
		"several/two.cpp":    "long two() { return 2; }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, digest, errs := exitOf(t, dir, g, "problem", "upload", "double")
	if digest = strings.TrimSpace(digest); code != 0 {
		t.Fatalf("upload: got exit code %d, %s", code, errs)
	}
	programs := []string{"Sum.java", "solution.py", "half/solution.py", "latin/solution.py", "folder", "cheat", "several"}
	want := []job.Verdict{job.Accepted, job.Accepted, job.WrongAnswer, job.Accepted, job.Accepted, job.RunTimeError, job.Accepted}
	var reports [2]struct {
		MaxScore    *float64 `json:"max_score"`
		Submissions []struct {
			Verdict job.Verdict `json:"verdict"`
			Score   *float64    `json:"score"`
			Error   string      `json:"error"`
		} `json:"submissions"`
	}
	for i, problem := range []string{"double", digest} {
		_, out, errs := exitOf(t, dir, g, append([]string{"grade", "--json", "--problem", problem}, programs...)...)
		if err := json.Unmarshal([]byte(out), &reports[i]); err != nil || len(reports[i].Submissions) != len(programs) {
			t.Fatalf("%s: %v in %s%s", problem, err, out, errs)
		}
		if most := reports[i].MaxScore; most == nil || *most != 100 {
			t.Errorf("%s: got %s", problem, out)
		}
		for n, s := range reports[i].Submissions {
			if s.Verdict != want[n] || s.Score == nil || *s.Score != *reports[0].Submissions[n].Score {
				t.Errorf("%s by %s: got %+v, want %s, %+v", programs[n], problem, s, want[n], reports[0].Submissions[n])
			}
		}
	}
	for _, program := range []string{"Sum.java", "solution.py", "latin/solution.py"} {
		if code, out, errs := exitOf(t, dir, g, "submit", "--wait", "--problem", digest, program); code != 0 {
			t.Errorf("submit %s: got exit code %d, %s%s", program, code, out, errs)
		}
	}
}
