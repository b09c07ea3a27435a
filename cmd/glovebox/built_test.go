package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built is where the commands are that tests start, each built once. They have no race detector: with it, one takes three
// times as long to start, and the scripts start a hundred and fifty.
var built struct {
	sync.Mutex

	dir string
}

// withBuilt runs the tests, and removes what was built for them.
type withBuilt struct{ *testing.M }

func (m withBuilt) Run() int {
	dir, err := os.MkdirTemp("", "glovebox-built-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	return m.M.Run()
}

// build returns a directory with the commands, which are made as make build makes them, so that what that compiled is used.
func build(tb testing.TB, tags string, commands ...string) (dir string) {
	tb.Helper()
	built.Lock()
	defer built.Unlock()
	dir = filepath.Join(built.dir, strings.ReplaceAll(tags, " ", "-"))
	commands = slices.DeleteFunc(commands, func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
	for i, name := range commands {
		commands[i] = "../" + name
	}
	if len(commands) == 0 {
		return dir
	}
	build := exec.CommandContext(tb.Context(), "go", slices.Concat([]string{"build", "-trimpath", "-tags", tags, "-o", dir + "/"}, commands)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", commands, err, out)
	}
	return dir
}

// podmanTags are the Makefile's PODMAN_TAGS.
const podmanTags = "remote containers_image_openpgp exclude_graphdriver_btrfs"
