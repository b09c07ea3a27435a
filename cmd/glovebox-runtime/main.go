// Command glovebox-runtime is the OCI runtime that Glovebox gives to Podman: it adds
// the flags that rootless Podman and untrusted code need, and becomes the runsc that
// lies beside it.
//
// It starts several times for every sandbox, so it is small and links the standard
// library only. It never runs anything but that runsc: without it, or when asked
// for a flag that it doesn't know, it fails, and the sandbox isn't made.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "glovebox-runtime:", err)
		os.Exit(1)
	}
}

// run becomes runsc; it returns only what kept it from that.
func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own path: %w", err)
	}
	argv, err := runscArgs(args)
	if err != nil {
		return err
	}
	runsc := filepath.Join(filepath.Dir(self), "runsc")
	_, rest, err := splitGlobals(args)
	switch {
	case err != nil:
		return err
	case kills(rest):
		return kill(runsc, argv, rest)
	case len(rest) > 1 && rest[0] == "create":
		if err := displace(runsc, argv, rest); err != nil {
			return err
		}
	}
	if err := syscall.Exec(runsc, argv, os.Environ()); err != nil {
		return fmt.Errorf("execute %s: %w", runsc, err)
	}
	return nil
}
