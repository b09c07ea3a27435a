package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// group is a cgroup inside the sandbox: gVisor's own, of which nothing reaches the
// host. It counts a run's processes, its memory (private, shared, memfd and tmpfs pages
// alike, by the process that touched them first) and its CPU time. gVisor enforces no
// memory limit there, and pids.max only now and then: it asks one of the task's seven
// hierarchies, taken at random, about a new task, and six know nothing of pids (runsc of
// 2026-09). RLIMIT_NPROC is exact; for the rest the agent watches.
type group struct {
	name string
}

var controllers = []string{"pids", "memory", "cpuacct"}

const cgroupRoot = "/sys/fs/cgroup"

// dir is where a controller has the group. Memory has one for all runs: what a compile
// step leaves in files is held while the program runs, and counts against its limit.
func (g group) dir(controller string) string {
	if controller == "memory" {
		return filepath.Join(cgroupRoot, controller, "glovebox")
	}
	return filepath.Join(cgroupRoot, controller, g.name)
}

// newGroup makes the cgroup. It fails closed: without it, no run.
func newGroup(name string) (group, error) {
	g := group{name: "glovebox-" + name}
	for _, c := range controllers {
		err := os.Mkdir(g.dir(c), 0o755)
		if c == "memory" && errors.Is(err, os.ErrExist) {
			continue // of the run before
		}
		if err != nil {
			return g, fmt.Errorf("make cgroup: %w", err)
		}
	}
	return g, nil
}

// memory is what the group uses now, in bytes.
func (g group) memory() (int64, error) {
	return readInt(g.dir("memory") + "/memory.usage_in_bytes")
}

// cpu is what the group has used so far.
func (g group) cpu() (time.Duration, error) {
	n, err := readInt(g.dir("cpuacct") + "/cpuacct.usage")
	return time.Duration(n), err
}

// processes is how many processes and threads the group has now.
func (g group) processes() (int64, error) { return readInt(g.dir("pids") + "/pids.current") }

// join moves the calling process into the group.
func (g group) join() error {
	for _, c := range controllers {
		var err error = syscall.EAGAIN
		// EAGAIN: a thread of the Go runtime is just being made. That passes.
		for tries := 0; errors.Is(err, syscall.EAGAIN) && tries < 1000; tries++ {
			if tries > 0 {
				time.Sleep(time.Millisecond)
			}
			err = os.WriteFile(g.dir(c)+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0o644)
		}
		if err != nil {
			return fmt.Errorf("join cgroup %s: %w", c, err)
		}
	}
	return nil
}

// readInt reads a small file, many times a second: so without what os.ReadFile does
// beside it, which in a sandbox costs more than the reading.
func readInt(path string) (int64, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	defer syscall.Close(fd)
	var b [32]byte
	size, err := syscall.Read(fd, b[:])
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b[:size])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", path, err)
	}
	return n, nil
}
