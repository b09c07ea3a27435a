package main

import (
	"fmt"
	"slices"
	"strings"
)

// fixedFlags are the flags of every runsc. Those that repeat a default of runsc are there because
// the isolation rests on it: a new version must not change it.
var fixedFlags = []string{
	// runsc refuses rootless Podman otherwise: it has no cgroups to write to.
	"--ignore-cgroups",
	// No network stack of the host behind the sandbox's own; loopback only.
	"--network=none",
	"--platform=systrap",
	// No socket and no FIFO of the host can be opened from inside.
	"--host-uds=none",
	"--host-fifo=none",
	// Glovebox's root file systems are read-only. Should one not be, what is written to it
	// stays in the sandbox's memory, where limits count it: the default is a file
	// on the host's disk.
	"--overlay2=root:memory",
}

// acceptedFlags are the global flags that Podman and conmon may pass, and whether a value
// follows as an argument of its own. Anything else could undo one of fixedFlags: runsc lets the
// last of two equal flags win.
var acceptedFlags = map[string]bool{
	"root":       true,
	"log":        true,
	"log-format": true,
	"version":    false,
}

// runscArgs returns the argument vector of runsc for that of an OCI runtime: its global
// flags, and the rest.
func runscArgs(globals, rest []string) []string {
	return slices.Concat([]string{"runsc"}, globals, fixedFlags, rest)
}

// splitGlobals splits an OCI runtime's arguments into global flags, which it checks, and a command
// with its own arguments, which pass unread.
func splitGlobals(args []string) (globals, rest []string, err error) {
	for i := 0; i < len(args); {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			return args[:i], args[i:], nil
		}
		name, _, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		valued, ok := acceptedFlags[name]
		switch {
		case !ok:
			return nil, nil, fmt.Errorf("refuse flag %q: only --root, --log, --log-format and --version may precede the command", arg)
		case valued && !inline && i+1 == len(args):
			return nil, nil, fmt.Errorf("refuse flag %q: it lacks its value", arg)
		case valued && !inline:
			i += 2
		default:
			i++
		}
	}
	return args, nil, nil
}
