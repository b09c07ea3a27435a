package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeleteStale(t *testing.T) {
	t.Parallel()
	runsc := script(t, `echo "$@" >>"$0.log"`)
	dir := filepath.Dir(runsc)
	if err := os.WriteFile(filepath.Join(dir, "abc_sandbox:abc.state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"--root=" + dir, "--root " + dir} {
		for _, id := range []string{"new", "abc"} {
			rest := strings.Fields("create --bundle /b " + id)
			if err := deleteStale(runsc, append(strings.Fields("runsc "+root+" --fixed"), rest...), rest); err != nil {
				t.Error(err)
			}
		}
	}
	want := "--root=" + dir + " --fixed delete --force abc\n--root " + dir + " --fixed delete --force abc\n"
	if b, err := os.ReadFile(runsc + ".log"); err != nil || string(b) != want {
		t.Errorf("runsc was called with %q, want %q; %v", b, want, err)
	}
}

func TestRoot(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	for args, want := range map[string]string{
		"runsc": "/run/user/7/runsc", "runsc --root=/r create x": "/r", "runsc -root /r create x": "/r", "runsc create root x": "/run/user/7/runsc",
	} {
		if got := stateRoot(strings.Fields(args)); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}
