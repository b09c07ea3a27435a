package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestGradeImports imports problems of DMOJ and Polygon, in testdata/imports, and judges submissions by what comes of
// them: Polygon's own, and those that lie beside the problem.
func TestGradeImports(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	for name, limit := range map[string]string{"dmoj": "10s", "polygon": "10s", "dmoj-interactive": "5s", "dmoj-plain": "5s", "polygon-interactive": "5s"} {
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile("testdata/imports/" + name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			src, made := filepath.Join(dir, name), filepath.Join(dir, "made")
			unpackProblem(t, archive, src, made)
			glovebox := func(args ...string) (stdout, stderr string, code int) {
				cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
				cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token, "HOME="+dir)
				var out, errs strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &errs
				if err := cmd.Run(); cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return out.String(), errs.String(), cmd.ProcessState.ExitCode()
			}
			if _, stderr, code := glovebox("problem", "import", "--time-limit", limit, "--memory-mb", "256", src, made); code != 0 {
				t.Fatalf("got exit code %d: %s", code, stderr)
			}
			unpackProblem(t, &txtar.Archive{Files: submissionsOf(archive)}, made, "")
			var want, paths []string
			for line := range strings.Lines(string(archive.Comment)) {
				if w, ok := strings.CutPrefix(strings.TrimSpace(line), "want: "); ok {
					want = append(want, w)
					paths = append(paths, filepath.Join(made, "submissions", strings.Fields(w)[0]))
				}
			}
			stdout, stderr, code := glovebox(append([]string{"grade", "--problem", made, "--json"}, paths...)...)
			const judge = 3                // of one that could not be judged
			if code > 1 && code != judge { // 0 and 1 follow from the verdicts, too
				t.Fatalf("got exit code %d: %s%s", code, stdout, stderr)
			}
			var report gradeReport
			if err := json.Unmarshal([]byte(stdout), &report); err != nil {
				t.Fatal(err)
			}
			if len(report.Submissions) != len(want) {
				t.Fatalf("got %d submissions, want %d", len(report.Submissions), len(want))
			}
			for i, s := range report.Submissions {
				got := strings.TrimPrefix(report.line(i), made+"/submissions/")
				if got != want[i] {
					t.Errorf("got  %s\nwant %s\n%s", got, want[i], s.Error)
				}
			}
		})
	}
}

// submissionsOf are the files that lie beside a problem, not in it.
func submissionsOf(archive *txtar.Archive) (files []txtar.File) {
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "submissions/") {
			files = append(files, f)
		}
	}
	return files
}

// unpackProblem writes an archive's files; those below NAME.zip/ go into a zip archive. Where a package is to be made
// of it, submissions stay behind.
func unpackProblem(t *testing.T, archive *txtar.Archive, dir, made string) {
	t.Helper()
	var packed bytes.Buffer
	w, at := zip.NewWriter(&packed), ""
	write := func(name string, content []byte) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		before, inside, ok := strings.Cut(f.Name, ".zip/")
		switch {
		case ok:
			at = before + ".zip"
			entry, err := w.Create(inside)
			if err == nil {
				_, err = entry.Write(f.Data)
			}
			if err != nil {
				t.Fatal(err)
			}
		case made == "" || !strings.HasPrefix(f.Name, "submissions/"):
			write(f.Name, f.Data)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if at != "" {
		write(at, packed.Bytes())
	}
}
