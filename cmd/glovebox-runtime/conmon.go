package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// conmonName is the name under which Podman starts this program in conmon's place.
const conmonName = "conmon"

// workersPrefix is that of the names of containers that a worker makes.
const workersPrefix = "glovebox-"

// conmons is where packages install conmon: Podman's own list.
var conmons = []string{
	"/usr/libexec/podman/conmon", "/usr/local/libexec/podman/conmon", "/usr/local/lib/podman/conmon",
	"/usr/bin/conmon", "/usr/sbin/conmon", "/usr/local/bin/conmon", "/usr/local/sbin/conmon",
	"/run/current-system/sw/bin/conmon",
}

// monitor becomes conmon, for a worker's container without its exit command. That is `podman
// container cleanup`, a sixth of what a sandbox costs: it starts Podman and runsc to
// undo what the worker's removal, or its reaper's, undoes as well.
func monitor(args []string) error {
	if removedByWorker(args) {
		args = withoutExitCommand(args)
	}
	for _, path := range conmons {
		if err := syscall.Exec(path, slices.Concat([]string{conmonName}, args), os.Environ()); !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("execute %s: %w", path, err)
		}
	}
	return fmt.Errorf("no conmon is in any of %s: install the package conmon", strings.Join(conmons, ", "))
}

// removedByWorker reports whether conmon is to watch over a whole container that a worker
// has made. One that somebody made by hand may have nobody else who cleans up, nor
// has a process that `podman exec` starts.
func removedByWorker(args []string) bool {
	if slices.Contains(args, "-e") || slices.Contains(args, "--exec") {
		return false
	}
	for i, arg := range args {
		if arg == "-n" && i+1 < len(args) { // the first: what follows is the exit command
			return strings.HasPrefix(args[i+1], workersPrefix)
		}
	}
	return false
}

// withoutExitCommand drops --exit-command and its arguments.
func withoutExitCommand(args []string) []string {
	kept := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--exit-command" || args[i] == "--exit-command-arg" {
			i++
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}

// isConmon reports whether the program was started under conmon's name.
func isConmon(argv0 string) bool { return filepath.Base(argv0) == conmonName }
