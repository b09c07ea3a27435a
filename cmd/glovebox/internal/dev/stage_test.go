package dev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func programs(t *testing.T, content string) tools {
	t.Helper()
	dir := t.TempDir()
	p := tools{worker: filepath.Join(dir, "glovebox-worker"), agent: filepath.Join(dir, "glovebox-agent")}
	for _, path := range []string{p.worker, p.agent} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // programs are executable
			t.Fatal(err)
		}
	}
	return p
}

func TestStage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "staged")
	one, err := stage(programs(t, "one"), dir)
	if err != nil {
		t.Fatal(err)
	}
	same, err := stage(programs(t, "one"), dir)
	if err != nil || same.worker != one.worker {
		t.Errorf("the same programs: got %v, %v, want %s", same.worker, err, one.worker)
	}
	two, err := stage(programs(t, "two"), dir)
	if err != nil || two.worker == one.worker {
		t.Errorf("others: got %v, %v, want another directory", two.worker, err)
	}
	if b, err := os.ReadFile(one.agent); err != nil || string(b) != "one" {
		t.Errorf("copies in use: got %q, %v, want them untouched", b, err)
	}
	if info, err := os.Stat(one.worker); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode: got %v, %v, want 0755", info, err)
	}

	// Once nobody uses them, the next one clears them away. A program that another test starts just then inherits the locks, and drops them as it is executed.
	one.lock.Close()
	same.lock.Close()
	gbtest.Eventually(t, "copies that nobody uses are gone", func() bool {
		again, err := stage(programs(t, "two"), dir)
		if err != nil {
			t.Fatal(err)
		}
		again.lock.Close()
		_, err = os.Stat(one.worker)
		return os.IsNotExist(err)
	})
	two.lock.Close()
}
