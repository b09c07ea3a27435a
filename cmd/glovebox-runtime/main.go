// Command glovebox-runtime is the OCI runtime that Glovebox gives to Podman: it adds
// the flags that rootless Podman and untrusted code need, and becomes the runsc that
// lies beside it. Where the host delegates cgroups, it also gives each sandbox one that
// bounds it, which runsc doesn't do under rootless Podman.
//
// It starts several times for every sandbox, so it is small and links little more than the
// standard library. It runs nothing except that runsc: without it, when asked for a flag
// that it doesn't know, or when a limit is missing, it fails, and the sandbox isn't made.
//
// Called as conmon, it becomes Podman's monitor of a container, with other arguments (conmon.go).
// "glovebox-runtime version" tells its own version, "glovebox-runtime --version" runsc's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/glovebox-run/glovebox/internal/version"
)

func main() {
	// Only the word: --version is Podman's, which wants to know runsc's.
	if asked, asJSON := version.Asked(os.Args[1:]); asked && os.Args[1] == "version" {
		if err := version.Read().Write(os.Stdout, "glovebox-runtime", asJSON); err != nil {
			os.Exit(1)
		}
		return
	}
	program := run
	if isConmon(os.Args[0]) {
		program = execConmon
	}
	err := program(os.Args[1:])
	fmt.Fprintln(os.Stderr, "glovebox-runtime:", err)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	os.Exit(1)
}

// run becomes runsc, or exits when the work is done; it returns only with an error.
func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own path: %w", err)
	}
	globals, rest, err := splitGlobals(args)
	if err != nil {
		return err
	}
	runsc, argv := filepath.Join(filepath.Dir(self), "runsc"), runscArgs(globals, rest)
	switch {
	case len(rest) > 0 && (rest[0] == "run" || rest[0] == "restore"):
		err = fmt.Errorf("refuse %s: a sandbox is made by create, which looks at its configuration", rest[0])
	case len(rest) > 1 && rest[0] == exitedCommand:
		err = exited(runsc, argv, rest, os.Getppid(), killTimeout)
	case isKill(rest):
		err = kill(runsc, argv, rest, killTimeout)
	case len(rest) > 1 && rest[0] == "create":
		err = create(runsc, argv, rest)
	case len(rest) == 2 && rest[0] == "start":
		var sent bool
		if sent, err = start(runsc, argv, rest[1]); !sent {
			err = become(runsc, argv)
		}
	case len(rest) > 1 && rest[0] == "delete":
		err = remove(runsc, argv, rest)
	default:
		err = become(runsc, argv)
	}
	if err == nil {
		os.Exit(0)
	}
	return err
}

// become returns only with an error.
func become(runsc string, argv []string) error {
	return fmt.Errorf("execute %s: %w", runsc, syscall.Exec(runsc, argv, os.Environ()))
}
