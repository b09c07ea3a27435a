package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// TestCanMake: what is missing for a kind of machine is said before minutes of compiling.
func TestCanMake(t *testing.T) {
	t.Parallel()
	found := func(program string) (string, error) { return "/usr/bin/" + program, nil }
	none := func(program string) (string, error) { return "", exec.ErrNotFound }
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for _, c := range []struct {
		kinds []string
		find  func(string) (string, error)
		want  string
	}{
		{[]string{"amd64", "arm64"}, found, ""},
		{[]string{runtime.GOARCH}, none, ""},
		{[]string{runtime.GOARCH, other}, none, "apt-get install qemu-user-static"},
		{[]string{"riscv64"}, found, `-arch "riscv64": want amd64, arm64`},
		{[]string{""}, found, `-arch "": want amd64, arm64`},
	} {
		if err := canMake(c.kinds, c.find); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.kinds, err, c.want)
		}
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
