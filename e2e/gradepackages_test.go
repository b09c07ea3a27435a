package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// beyondCore are runtimes that packages need and that are not built everywhere.
var beyondCore = map[string][]string{"scripts": {"classroom"}, "several-sources": {"csharp", "d"}}

// TestGradePackages judges the submissions of a package of each version of the format and each type, in testdata/packages:
// what each comes to, its score, and each test's verdict. In short, these are some of them. Those with
// scripts, and in C# and D, are refused where their runtimes are not built; `make test-runtimes` has them.
func TestGradePackages(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	archives, err := filepath.Glob("testdata/packages/*.txtar")
	if err != nil || len(archives) < 10 {
		t.Fatalf("got the packages %v, %v", archives, err)
	}
	published, err := g.client.Runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		if testing.Short() && !slices.Contains([]string{"legacy-pass-fail", "legacy-scoring", "legacy-validator", "scripts", "several-sources"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := txtar.Write(archive, dir); err != nil {
				t.Fatal(err)
			}
			var want, submissions []string
			for line := range strings.Lines(string(archive.Comment)) {
				if w, ok := strings.CutPrefix(strings.TrimSpace(line), "want: "); ok {
					want = append(want, w)
					submissions = append(submissions, "submissions/"+strings.Fields(w)[0])
				}
			}
			cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), append([]string{"grade", "--problem", ".", "--json"}, submissions...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+dir)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err = cmd.Run()
			built := func(name string) bool {
				return slices.ContainsFunc(published, func(r producer.Runtime) bool { return r.Name == name })
			}
			if missing := slices.DeleteFunc(slices.Clone(beyondCore[name]), built); len(missing) > 0 {
				// 2 of a problem that can't be graded by, 3 of submissions that could not be judged
				if code := cmd.ProcessState.ExitCode(); code < 2 || !strings.Contains(stdout.String()+stderr.String(), "no runtime for ") {
					t.Errorf("without the runtime %s: got exit code %d, %s%s", missing[0], code, stdout.String(), stderr.String())
				}
				return
			}
			if code := cmd.ProcessState.ExitCode(); code > 1 { // 0 and 1 follow from the verdicts
				t.Fatalf("got exit code %d, %v: %s%s", code, err, stdout.String(), stderr.String())
			}
			var report gradeReport
			if err := json.Unmarshal([]byte(stdout.String()), &report); err != nil {
				t.Fatal(err)
			}
			if len(report.Submissions) != len(want) {
				t.Fatalf("got %d submissions, want %d", len(report.Submissions), len(want))
			}
			for i, s := range report.Submissions {
				if got := report.line(i); got != want[i] {
					t.Errorf("got  %s\nwant %s\n%s", got, want[i], s.Error)
				}
			}
		})
	}
}

// gradeReport is what "glovebox grade --json" prints, as far as tests look at it.
type gradeReport struct {
	Scoring     bool
	Submissions []struct {
		Submission string
		Verdict    job.Verdict
		Score      float64
		Tests      []job.TestResult
		Error      string
	}
}

// line is a submission and what it came to, as a package's archive says it.
func (r gradeReport) line(i int) string {
	s := r.Submissions[i]
	line := strings.TrimPrefix(s.Submission, "submissions/") + " " + short(s.Verdict)
	if r.Scoring {
		line += fmt.Sprint(" ", s.Score)
	}
	line += ":"
	for _, t := range s.Tests {
		line += " " + short(t.Verdict)
	}
	return line
}

// short is a verdict in two letters.
func short(v job.Verdict) string {
	letters := map[job.Verdict]string{job.Accepted: "AC", job.WrongAnswer: "WA", job.RunTimeError: "RE", job.SkippedTest: "SK"}
	if s := letters[v]; s != "" {
		return s
	}
	return string(v)
}
