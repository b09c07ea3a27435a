package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

// sandboxCgroup is the path of a sandbox's cgroup.
type sandboxCgroup string

// cgroupOf returns the cgroup of a command's sandbox. rest are its arguments; the last is the id.
func cgroupOf(parent string, rest []string) (sandboxCgroup, error) {
	id := rest[len(rest)-1]
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\n") {
		return "", fmt.Errorf("refuse container id %q: it can't name a cgroup", id)
	}
	return sandboxCgroup(filepath.Join(parent, id)), nil
}

// bounds are what a sandbox may use of the host, as cgroup v2 files take it.
type bounds struct{ memory, cpu, pids string }

// boundsOf reads them from a sandbox's configuration.
func boundsOf(c config) (bounds, error) {
	r := c.Linux.Resources
	for name, missing := range map[string]bool{
		"memory.limit": r.Memory.Limit <= 0, "cpu.quota": r.CPU.Quota <= 0 || r.CPU.Period == 0, "pids.limit": r.Pids.Limit <= 0,
	} {
		if missing {
			return bounds{}, fmt.Errorf("refuse a sandbox without linux.resources.%s: on this host a cgroup bounds every sandbox", name)
		}
	}
	return bounds{
		memory: strconv.FormatInt(r.Memory.Limit, 10),
		cpu:    fmt.Sprintf("%d %d", r.CPU.Quota, r.CPU.Period),
		pids:   strconv.FormatInt(r.Pids.Limit, 10),
	}, nil
}

// make makes the cgroup with its limits. One that exists is that of a stale sandbox, and is
// removed first.
func (c sandboxCgroup) make(b bounds) (err error) {
	if err := c.remove(); err != nil {
		return err
	}
	if err := os.Mkdir(string(c), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.remove())
		}
	}()
	if err := c.limit(b); err != nil {
		return err
	}
	// The worker, in this group, may change the limits when a job claims the sandbox, and
	// end a sandbox that Podman has forgotten.
	for _, name := range []string{"memory.max", "cpu.max", "pids.max", "cgroup.kill"} {
		err := os.Chmod(filepath.Join(string(c), name), 0o664)
		if errors.Is(err, fs.ErrNotExist) && name == "cgroup.kill" {
			continue // before Linux 5.14
		}
		if err != nil {
			return fmt.Errorf("share cgroup: %w", err)
		}
	}
	return nil
}

// limit sets the cgroup's limits.
func (c sandboxCgroup) limit(b bounds) error {
	for _, file := range []struct{ name, value string }{
		{"memory.max", b.memory},
		{"memory.swap.max", "0"},
		{"memory.oom.group", "1"}, // half a sandbox is none
		{"cpu.max", b.cpu},
		{"pids.max", b.pids},
	} {
		err := c.write(file.name, file.value)
		if errors.Is(err, fs.ErrNotExist) && file.name == "memory.swap.max" && !cgroup.Swaps() {
			continue // the kernel doesn't account for swap, and there is none
		}
		if err != nil {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	return nil
}

// write writes to a file of the cgroup. It makes none: who would make a file of a cgroup is told that
// it is not permitted, not that the file is missing.
func (c sandboxCgroup) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(string(c), name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// run runs a command in the cgroup, from its first instruction on, with everything that it starts.
func (c sandboxCgroup) run(path string, argv []string) error {
	dir, err := os.Open(string(c))
	if err != nil {
		return fmt.Errorf("open cgroup: %w", err)
	}
	defer dir.Close()
	cmd := &exec.Cmd{
		Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())},
	}
	return cmd.Run()
}

const (
	removeTimeout = 2 * time.Second
	removePause   = 5 * time.Millisecond
)

// remove kills what is left in the cgroup and removes it. A missing cgroup is no error.
func (c sandboxCgroup) remove() error {
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(removePause) {
		err := os.Remove(string(c))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		kill := c.write("cgroup.kill", "1")
		if kill != nil && !errors.Is(kill, fs.ErrNotExist) {
			return fmt.Errorf("end what is left in the cgroup: %w", kill)
		}
	}
}
