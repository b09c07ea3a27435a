package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNameAnew: a backup gets its name where there are no links, as on vfat, and where there is no
// rename that replaces nothing, either; what has the name keeps it.
func TestNameAnew(t *testing.T) {
	t.Parallel()
	fails := func(err error) func(string, string) error { return func(string, string) error { return err } }
	for name, ways := range map[string][]func(string, string) error{
		"link":         {os.Link, renameAnew, renameAbsent},
		"no links":     {fails(unix.EPERM), renameAnew, renameAbsent},
		"plain rename": {fails(unix.EOPNOTSUPP), fails(unix.EINVAL), renameAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from, to, taken := filepath.Join(dir, "new"), filepath.Join(dir, "gb.tar"), filepath.Join(dir, "taken.tar")
			for path, content := range map[string]string{from: "backup", taken: "older"} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := nameAnew(from, taken, ways...); !errors.Is(err, os.ErrExist) {
				t.Errorf("a name that is taken: got %v", err)
			}
			if err := nameAnew(from, to, ways...); err != nil {
				t.Error(err)
			}
			for path, want := range map[string]string{to: "backup", taken: "older"} {
				if b, err := os.ReadFile(path); err != nil || string(b) != want {
					t.Errorf("%s: got %q, %v, want %q", path, b, err, want)
				}
			}
		})
	}
}
