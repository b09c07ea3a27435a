package testcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestKilledHelper is no test: it is the process that TestKilled kills in the middle of a fetch.
func TestKilledHelper(t *testing.T) { //nolint:paralleltest // a process of its own
	dir := os.Getenv("GLOVEBOX_TEST_CACHE")
	if dir == "" {
		t.Skip("only for TestKilled")
	}
	c := open(t, stuckBucket{}, func(c *Config) { c.Dir = dir })
	h := sha256.Sum256([]byte("whole"))
	c.reads(t, "whole", hex.EncodeToString(h[:]), []byte("whole"))
	_, _ = c.read(t, "half", "sum")
}

// stuckBucket has an object, and begins another.
type stuckBucket struct{}

func (stuckBucket) Get(_ context.Context, key string) (io.ReadCloser, artifacts.Object, error) {
	if key == "whole" {
		return io.NopCloser(strings.NewReader(key)), artifacts.Object{Size: 5}, nil
	}
	never, _ := io.Pipe()
	return io.NopCloser(io.MultiReader(strings.NewReader("half"), never)), artifacts.Object{Size: 8}, nil
}

func (stuckBucket) Head(context.Context, string) (artifacts.Object, error) {
	return artifacts.Object{}, nil
}

// TestKilled: of a process that is killed while it fetches, the next one uses nothing, and removes all.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilledHelper$")
	helper.Env = append(os.Environ(), "GLOVEBOX_TEST_CACHE="+dir, "TMPDIR="+t.TempDir())
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	left := func() string { names, _ := filepath.Glob(dir + "/*/*"); return strings.Join(names, " ") }
	gbtest.Eventually(t, "it has one object, and a part of another", func() bool { return strings.HasSuffix(left(), "/2") })
	if err := errors.Join(helper.Process.Kill(), ignored(helper.Wait())); err != nil {
		t.Fatal(err)
	}
	if left() == "" {
		t.Fatal("nothing is left of it: this proves nothing")
	}
	c := open(t, stuckBucket{}, func(c *Config) { c.Dir = dir })
	if left() != "" || c.holds != 0 {
		t.Errorf("the next one has %s", left())
	}
	h := sha256.Sum256([]byte("whole"))
	c.reads(t, "whole", hex.EncodeToString(h[:]), []byte("whole"))
	c.is(t, map[Result]int{Miss: 1})
}

// ignored is how a process ended that was killed.
func ignored(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// TestLeftDirectory: what a killed process left is removed by the next, and that of a live one is not.
func TestLeftDirectory(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	parent := t.TempDir()
	in := func(c *Config) { c.Dir = parent }
	left := filepath.Join(parent, prefix+"123")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "1"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"notes", prefix + "file"} {
		if err := os.WriteFile(filepath.Join(parent, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := open(t, b, in)
	second := open(t, b, in)
	key, sum := b.put(t, "acme", []byte("content"))
	first.reads(t, key, sum, []byte("content"))
	second.reads(t, key, sum, []byte("content"))
	if names, err := filepath.Glob(parent + "/*"); err != nil || len(names) != 4 {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
}
