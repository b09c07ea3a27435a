package main

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/runtimes"
)

// TestDevBuilds: a runtime that is not built is offered, and built for its first job.
func TestDevBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds an image, from Debian's mirror")
	}
	t.Parallel()
	d := newDevTest(t)
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	awk, _ := set.Lookup("awk")
	podman := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.Background(), podmanScript, args...).CombinedOutput(); err != nil {
			t.Errorf("podman %v: %v: %s", args, err, out)
		}
	}
	podman("rmi", "--force", "--ignore", awk.Image())
	t.Cleanup(func() { podman("rmi", "--force", "--ignore", awk.Image()) })
	d.start()
	list, _, _ := d.glovebox("", "runtimes", "list")
	if !regexp.MustCompile(`(?m)^awk .*built when a job asks for it`).MatchString(list) {
		t.Errorf("got %s, want awk among them", list)
	}
	stdout, stderr, code := d.glovebox(`BEGIN { print 6 * 7 }`, "submit", "--runtime", "awk", "--wait", "-")
	if code != exitOK || stdout != "42\n" || !strings.Contains(stderr, "awk is not built yet") {
		t.Errorf("got %q, exit code %d: %s", stdout, code, stderr)
	}
	if out := d.dev.Output(); !strings.Contains(out, "building "+awk.Image()) {
		t.Errorf("dev said %s, want what it builds", out)
	}
}
