package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// serving are files that the real API never serves: one that has been taken over might.
type serving map[string]string

func (s serving) Open(_ context.Context, _, path string) (*producer.Download, error) {
	content, ok := s[path]
	if !ok {
		return nil, job.ErrNotFound
	}
	return &producer.Download{ReadCloser: io.NopCloser(strings.NewReader(content)), Size: int64(len(content))}, nil
}

func artifact(name, content string) job.Artifact {
	sum := sha256.Sum256([]byte(content))
	return job.Artifact{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for _, c := range []struct {
		name    string
		listed  job.Artifact
		served  string
		problem string // "" for a download that works
	}{
		{"plain", artifact("a.txt", "a"), "a", ""},
		{"below a directory", artifact("b/c/d é.txt", "x"), "x", ""},
		{"replaces", artifact("old.txt", "new"), "new", ""},
		{"replaces a link, not what it leads to", artifact("link.txt", "new"), "new", ""},
		{"upwards", artifact("../up.txt", "x"), "x", "plain path"},
		{"absolute", artifact(filepath.Join(outside, "abs.txt"), "x"), "x", "absolute"},
		{"through a link", artifact("dir/through.txt", "x"), "x", "escapes"},
		{"control characters", artifact("a\x1b[2J", "x"), "x", "control"},
		{"other bytes", artifact("other.txt", "abc"), "abd", "not what the result lists"},
		{"too few", artifact("few.txt", "abc"), "ab", "not what the result lists"},
		{"too many", artifact("many.txt", "abc"), strings.Repeat("abc", 1000), "not what the result lists"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "out")
			kept := filepath.Join(t.TempDir(), "kept.txt")
			for _, err := range []error{
				os.Mkdir(dir, 0o755), os.Symlink(outside, filepath.Join(dir, "dir")), os.Symlink(kept, filepath.Join(dir, "link.txt")),
				os.WriteFile(filepath.Join(dir, "old.txt"), []byte("old"), 0o600), os.WriteFile(kept, []byte("kept"), 0o600),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			a := &app{stdout: io.Discard, stderr: io.Discard}
			jobs := serving{producer.ArtifactPath(c.listed.Name): c.served}
			err := a.download(t.Context(), jobs, job.Result{Artifacts: []job.Artifact{c.listed}}, dir)
			if c.problem == "" {
				if got := read(t, filepath.Join(dir, c.listed.Name)); err != nil || string(got) != c.served {
					t.Errorf("got %q, %v, want %q", got, err, c.served)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %v, want %q in it", err, c.problem)
			}
			if got := read(t, kept); string(got) != "kept" {
				t.Errorf("what a link leads to: got %q, want it unchanged", got)
			}
			leftovers(t, dir)
		})
	}
	t.Cleanup(func() {
		if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
			t.Errorf("outside: got %v, %v, want nothing", entries, err)
		}
	})
}

// leftovers checks that no download is there in part.
func leftovers(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".part") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPrintLongOutput(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr}
	whole := strings.Repeat("line\x1b\xff\n", 20_000)
	r := job.Result{Stdout: whole[:job.InlineOutput], StdoutURL: "https://example.com/", Stderr: "short"}
	if err := a.printOutput(t.Context(), serving{producer.Stdout: whole}, r); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != whole || stderr.String() != "short" {
		t.Errorf("got %d bytes and %q, want every byte of both", stdout.Len(), stderr.String())
	}
}
