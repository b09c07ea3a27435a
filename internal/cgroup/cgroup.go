// Package cgroup is what the OCI runtime, the worker, doctor and the tests have to agree on
// about the control groups (version 2, cgroups(7)) of sandboxes. It links the standard
// library only.
package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Mount is where the unified hierarchy is, on hosts that have it alone.
	Mount = "/sys/fs/cgroup"
	// Parent is the cgroup below which every sandbox has one of its own, in the unit that
	// systemd delegates to the Podman service. infra/podman-service.sh makes it; where it
	// is, no sandbox is made without a cgroup.
	Parent = "glovebox-sandboxes"
)

// Of returns the path below Mount of the cgroup that a /proc/<pid>/cgroup file names, and
// "" if there are only hierarchies of version 1.
func Of(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("find cgroup: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, nil
		}
	}
	return "", nil
}

// ParentOf returns the directory in which a process in this cgroup makes those of its
// sandboxes: the nearest Parent upwards. It is "" if nothing is delegated.
func ParentOf(mount, path string) (string, error) {
	for dir := filepath.Join(mount, path); len(dir) >= len(mount); dir = filepath.Dir(dir) {
		parent := filepath.Join(dir, Parent)
		_, err := os.Stat(parent)
		switch {
		case err == nil:
			return parent, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", fmt.Errorf("look for delegated cgroups: %w", err)
		}
	}
	return "", nil
}

// Swaps reports whether the host has anything to swap to. If so, and a cgroup has no file
// memory.swap.max, its memory.max is no limit.
func Swaps() bool {
	b, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // a kernel that can't
	}
	return bytes.Count(bytes.TrimSpace(b), []byte("\n")) > 0 // beside the heading
}
