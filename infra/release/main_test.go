package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplaceable: only a release is removed for a release.
func TestReplaceable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, ok := range []string{dir, filepath.Join(dir, "not-there")} {
		if err := replaceable(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	write("thesis.tex")
	for _, no := range []string{dir, "/", filepath.Join(dir, "thesis.tex")} {
		if err := replaceable(no); err == nil || !strings.Contains(err.Error(), no) {
			t.Errorf("%s: got %v, want an error that names it", no, err)
		}
	}
	write(sumsFile)
	if err := replaceable(dir); err != nil {
		t.Errorf("an older release: %v", err)
	}
}

// TestArguments: what is no flag may be the rest of a directory's name: nothing is made, and nothing deleted.
func TestArguments(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	older := filepath.Join(out, sumsFile)
	if err := os.WriteFile(older, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"-out", out, "of mine"}, func(string) string { return "" }, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "of mine") {
		t.Errorf("got %v, want an error that names it", err)
	}
	if _, err := os.Stat(older); err != nil {
		t.Error(err)
	}
}
