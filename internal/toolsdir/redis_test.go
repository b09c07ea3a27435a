package toolsdir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Redis is taken before Valkey, and Valkey where it is alone.
func TestRedis(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := Redis(); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("neither is there: got %s, %v", path, err)
	}
	for _, name := range []string{"valkey-server", "redis-server"} {
		want := filepath.Join(dir, name)
		if err := os.WriteFile(want, nil, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if path, err := Redis(); path != want || err != nil {
			t.Errorf("got %s, %v, want %s", path, err, want)
		}
	}
}
