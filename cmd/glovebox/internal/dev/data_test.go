package dev

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) {
	lockPatience = gbtest.Patience // tests release locks while they are waited for
	m.Run()
}

func TestData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o777); err != nil { //nolint:gosec // that is what has to be put right
		t.Fatal(err)
	}
	first, err := openData(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode: got %v, %v, want 0700", info.Mode(), err)
	}
	if _, err := openData(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "in use by another glovebox dev") {
		t.Errorf("twice: got %v, want that it is in use", err)
	}
	if err := first.writeEnv("http://127.0.0.1:1", "glovebox", "", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secrets", "env", "lock"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want mode 0600", name, info, err)
		}
	}
	secrets := maps.Clone(first.secrets)
	copied, err := unix.Dup(int(first.lock.Fd())) // as a program has it between fork and exec
	if err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { unix.Close(copied) })
	again, err := openData(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if !maps.Equal(secrets, again.secrets) || len(secrets) != 12 {
		t.Error("the secrets are not those of the first time")
	}
}

// TestHints: a shell takes them as they are, whatever the directory and the command are called.
func TestHints(t *testing.T) {
	t.Parallel()
	command := filepath.Join(t.TempDir(), "my tools", "glovebox")
	if err := os.Mkdir(filepath.Dir(command), 0o755); err != nil { //nolint:gosec // it has a program
		t.Fatal(err)
	}
	if err := os.WriteFile(command, []byte("#!/bin/sh\necho \"$1 $GLOVEBOX_DATA\"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	hints := (&stack{Config: Config{Command: command}, data: &data{dir: "/srv/it's $HOME"}}).hints()
	_, commands, _ := strings.Cut(hints, "\n\n")
	out, err := exec.CommandContext(t.Context(), "bash", "-c", commands).CombinedOutput()
	if want := "submit /srv/it's $HOME\nsubmit /srv/it's $HOME\nhelp /srv/it's $HOME\n"; err != nil || string(out) != want {
		t.Errorf("got %v, %q, want %q of\n%s", err, out, want, commands)
	}
	hints = (&stack{Config: Config{Command: "bin/glovebox"}, data: &data{dir: "/srv/glovebox"}}).hints()
	for _, want := range []string{"  export GLOVEBOX_DATA=/srv/glovebox\n", "| bin/glovebox submit", "  bin/glovebox help\n"} {
		if !strings.Contains(hints, want) {
			t.Errorf("want %q in\n%s", want, hints)
		}
	}
}

// --data /tmp, or --data ~, must not close these to everybody.
func TestDataOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openData(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not a data directory") {
		t.Errorf("got %v, want it refused", err)
	}
	if after, err := os.Stat(dir); err != nil || after.Mode() != before.Mode() {
		t.Errorf("its mode: got %v, %v, want %v", after.Mode(), err, before.Mode())
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(t.Context(), link); err == nil {
		t.Error("a link: got no error")
	}
}

// What is left of a dev that was killed holds the lock for a moment: it is waited for.
func TestLockOfTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A lock whose holder is no process, held by another open file: an inherited one.
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAt(f, "4194999\n"); err != nil { // beyond the kernel's largest pid
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	release := time.AfterFunc(200*time.Millisecond, func() { f.Close() })
	defer release.Stop()
	d, err := openData(t.Context(), dir)
	if err != nil {
		t.Fatalf("got %v, want the lock once it is free", err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}
