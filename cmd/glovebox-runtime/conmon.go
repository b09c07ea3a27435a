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

// workerPrefix begins the names of containers that a worker makes.
const workerPrefix = "glovebox-"

// exitedCommand is what conmon runs, with the container's id, when it ends.
const exitedCommand = "exited"

// conmonPaths is where packages install conmon: Podman's own list.
var conmonPaths = []string{
	"/usr/libexec/podman/conmon", "/usr/local/libexec/podman/conmon", "/usr/local/lib/podman/conmon",
	"/usr/bin/conmon", "/usr/sbin/conmon", "/usr/local/bin/conmon", "/usr/local/sbin/conmon",
	"/run/current-system/sw/bin/conmon",
}

// execConmon becomes conmon. For a worker's container it replaces Podman's exit command, `podman
// container cleanup`, which is an eighth of what a sandbox costs: that starts Podman and runsc to
// undo what the worker's removal, or its reaper, undoes as well.
func execConmon(args []string) error {
	if id := workerContainer(args); id != "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own path: %w", err)
		}
		args = withExitCommand(args, self, exitedCommand, id)
	}
	for _, path := range conmonPaths {
		if err := syscall.Exec(path, slices.Concat([]string{conmonName}, args), os.Environ()); !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("execute %s: %w", path, err)
		}
	}
	return fmt.Errorf("no conmon is in any of %s: install the package conmon", strings.Join(conmonPaths, ", "))
}

// workerContainer returns the id of conmon's container if a worker has made it, and conmon is for
// the whole of it, else "". For a container that somebody made by hand, or a process that `podman
// exec` starts, nobody else may clean up.
func workerContainer(args []string) string {
	end := slices.Index(args, "--exit-command") // what follows may be its arguments
	if end < 0 || slices.Contains(args, "-e") || slices.Contains(args, "--exec") {
		return ""
	}
	if !strings.HasPrefix(valueOf(args[:end], "-n"), workerPrefix) {
		return ""
	}
	return valueOf(args[:end], "-c")
}

// valueOf returns the argument after a flag, "" without one.
func valueOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// withExitCommand replaces conmon's exit command.
func withExitCommand(args []string, command ...string) []string {
	kept := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--exit-command" || args[i] == "--exit-command-arg" {
			i++
			continue
		}
		kept = append(kept, args[i])
	}
	kept = append(kept, "--exit-command", command[0])
	for _, arg := range command[1:] {
		kept = append(kept, "--exit-command-arg", arg)
	}
	return kept
}

// isConmon reports whether the program was started under conmon's name.
func isConmon(argv0 string) bool { return filepath.Base(argv0) == conmonName }
