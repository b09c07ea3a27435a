package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestKept: a program is laid out as it was kept, whatever has become of its names since.
func TestKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB: more than a kernel copies at once
	for name, content := range map[string][]byte{"main": large, "empty": nil, "dir/deep/f": []byte("f")} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("dir/deep", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	var p keptProgram
	if err := p.keepIn(root); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := empty(root); err != nil {
			t.Fatal(err)
		}
		for _, e := range p.entries {
			if err := e.layOut(); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string][]byte{"main": large, "empty": nil, "link/f": []byte("f")} {
			got, err := os.ReadFile(filepath.Join(root, name))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
			}
		}
		if info, err := os.Lstat(filepath.Join(root, "main")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v, want the mode that it had", info.Mode(), err)
		}
	}
	if err := p.entries[0].layOut(); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file that is there: got %v", err)
	}
	short := keptEntry{path: filepath.Join(root, "short"), file: p.entries[len(p.entries)-1].file, size: 1}
	for _, e := range p.entries {
		if e.file != nil && e.size == 0 {
			short.file = e.file
		}
	}
	if err := short.layOut(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of a file that has become shorter: got %v", err)
	}
}
