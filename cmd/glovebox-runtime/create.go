package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

// create makes the sandbox, in a cgroup of its own where the host delegates them.
func create(runsc string, argv, rest []string) error {
	bundle := bundleOf(rest)
	c, err := readConfig(bundle)
	if err != nil {
		return err
	}
	if err := deleteStale(runsc, argv, rest); err != nil {
		return err
	}
	if err := useImages(bundle, c); err != nil {
		return err
	}
	dir, err := cgroupParent()
	if err != nil {
		return err
	}
	id := rest[len(rest)-1]
	if dir == "" {
		if err := useWorkerPipes(c, id); err != nil {
			return err
		}
		return become(runsc, argv)
	}
	b, err := boundsOf(c)
	if err != nil {
		return err
	}
	l, err := cgroupOf(dir, rest)
	if err != nil {
		return err
	}
	if err := l.make(b); err != nil {
		return err
	}
	if err = useWorkerPipes(c, id); err == nil {
		err = l.run(runsc, argv)
	}
	if err != nil {
		return errors.Join(err, l.remove()) // nobody deletes what was never made
	}
	return nil
}

// cgroupParent returns the directory in which this process makes the cgroups of its sandboxes, ""
// if none is delegated.
func cgroupParent() (string, error) {
	path, err := cgroup.Of("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return cgroup.ParentOf(cgroup.Mount, path)
}

// remove destroys what runsc has of the sandbox, then the sandbox's cgroup, if it has one, with
// whatever is left in that.
func remove(runsc string, argv, rest []string) error {
	dir, err := cgroupParent()
	if err != nil {
		return err
	}
	id := rest[len(rest)-1]
	defer removeStaleLock(argv, id)
	destroy := func() error {
		if slices.Contains(rest, "--force") && destroySandbox(argv, id) == nil {
			return nil
		}
		cmd := &exec.Cmd{Path: runsc, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		return cmd.Run()
	}
	if dir == "" {
		return destroy()
	}
	l, err := cgroupOf(dir, rest)
	if err != nil {
		return err
	}
	return errors.Join(destroy(), l.remove())
}

// deleteStale destroys the sandbox that already has the name of the one to be created. A Podman
// service that died while it made the container has left it: started again, Podman knows the
// container and not its sandbox, which no removal would reach. argv are runsc's arguments, rest
// is their tail from the command on.
func deleteStale(runsc string, argv, rest []string) error {
	id := rest[len(rest)-1]
	state := filepath.Join(stateRoot(argv), id+"_sandbox:"+id+".state")
	if _, err := os.Stat(state); err != nil {
		return nil //nolint:nilerr // usually there is none; runsc reports any other reason
	}
	cmd := &exec.Cmd{Path: runsc, Args: slices.Concat(argv[:len(argv)-len(rest)], []string{"delete", "--force", id})}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("delete sandbox %s of a service that died: %w: %s", id, err, out)
	}
	return nil
}

// stateRoot returns the directory of runsc's state files.
func stateRoot(argv []string) string {
	for i, arg := range argv {
		flag := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		if value, ok := strings.CutPrefix(flag, "root="); ok {
			return value
		}
		if flag == "root" && arg != flag && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "runsc")
	}
	return "/var/run/runsc"
}
