package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGradeExamples checks the problems of docs/grading/examples as their pages say: each submission gets
// what its folder expects. In short, these are two that take little.
func TestGradeExamples(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	examples, err := filepath.Glob("../docs/grading/examples/*/problem.yaml")
	if err != nil || len(examples) < 3 {
		t.Fatalf("got the examples %v, %v", examples, err)
	}
	for _, example := range examples {
		if name := filepath.Base(filepath.Dir(example)); testing.Short() && name != "roman" && name != "letters" {
			continue // a submission that waits does so in each of 50 tests
		}
		dir := filepath.Dir(example)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			submissions, err := filepath.Glob(filepath.Join(dir, "submissions", "*", "*"))
			if err != nil || len(submissions) < 3 {
				t.Fatalf("got the submissions %v, %v", submissions, err)
			}
			cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), "problem", "check", dir)
			cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			for _, path := range submissions {
				name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` .* yes$`).Match(out) {
					t.Errorf("%s is not as expected in\n%s", name, out)
				}
			}
			if strings.Contains(string(out), "judge error") {
				t.Errorf("got\n%s", out)
			}
		})
	}
}
