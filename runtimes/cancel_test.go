package runtimes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestBuildCanceled: what a build runs is asked to end with it, and nobody waits for what that leaves.
func TestBuildCanceled(t *testing.T) {
	t.Parallel()
	set, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	began, asked := filepath.Join(dir, "began"), filepath.Join(dir, "asked")
	// As infra/podman.sh: it waits for a command in the background, which has our pipes, and hands signals on.
	const wrapper = `sleep 600 & child=$!; trap 'kill $child; echo yes >"$1"; exit 143' TERM; echo yes >"$0"; wait $child`
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- set.Build(ctx, BuildOptions{Names: []string{"awk"}, Podman: []string{"sh", "-c", wrapper, began, asked}})
	}()
	there := func(path string) func() bool {
		return func() bool { _, err := os.Stat(path); return err == nil }
	}
	gbtest.Eventually(t, "the command's beginning", there(began))
	cancel()
	select {
	case err := <-ended:
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that it was ended", err)
		}
	case <-time.After(gbtest.Patience):
		t.Fatal("the build goes on after its context's end")
	}
	if !there(asked)() {
		t.Error("the command was killed, not asked to end")
	}
}
