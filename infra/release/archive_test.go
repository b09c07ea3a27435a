package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var date = time.Date(2026, 11, 22, 19, 7, 0, 0, time.UTC)

func write(t *testing.T, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := put(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestArchive: the same files make the same bytes, whoever has them, since whenever, in whichever order.
func TestArchive(t *testing.T) {
	t.Parallel()
	one, two, to := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, one, "bin/glovebox", "program", 0o755)
	write(t, one, "LICENSE", "text", 0o644)
	old := write(t, two, "LICENSE", "text", 0o600)
	if err := os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	write(t, two, "bin/glovebox", "program", 0o700)
	var made [][]byte
	for i, dir := range []string{one, two} {
		name := filepath.Join(to, fmt.Sprint(i))
		if err := archive(name, dir, "glovebox-0.1.0", date); err != nil {
			t.Fatal(err)
		}
		made = append(made, read(t, name))
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same files make different archives")
	}
	type entry struct {
		Name, Content string
		Mode          int64
	}
	want := []entry{
		{"glovebox-0.1.0/", "", 0o755},
		{"glovebox-0.1.0/LICENSE", "text", 0o644},
		{"glovebox-0.1.0/bin/", "", 0o755},
		{"glovebox-0.1.0/bin/glovebox", "program", 0o755},
	}
	var got []entry
	zip, err := gzip.NewReader(bytes.NewReader(made[0]))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{h.Name, string(b), h.Mode})
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || !h.ModTime.Equal(date) {
			t.Errorf("%s is of %d:%d %s, %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	if err := os.Symlink("/etc/passwd", filepath.Join(two, "link")); err != nil {
		t.Fatal(err)
	}
	if err := archive(filepath.Join(to, "2"), two, "x", date); err == nil {
		t.Error("a symbolic link is packed")
	}
}
