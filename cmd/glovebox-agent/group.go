package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// group is a cgroup inside the sandbox: gVisor's own, of which nothing reaches the
// host. It bounds the processes of a run (pids.max), and counts its memory (private,
// shared, memfd and tmpfs pages alike, by the process that touched them first) and its
// CPU time. gVisor enforces no memory limit there, so the agent watches.
type group struct {
	name string
}

var controllers = []string{"pids", "memory", "cpuacct"}

const cgroupRoot = "/sys/fs/cgroup"

func (g group) dir(controller string) string { return filepath.Join(cgroupRoot, controller, g.name) }

// newGroup makes the cgroup. It fails closed: without it, no run.
func newGroup(name string, processes int64) (group, error) {
	g := group{name: "glovebox-" + name}
	for _, c := range controllers {
		if err := os.Mkdir(g.dir(c), 0o755); err != nil {
			return g, fmt.Errorf("make cgroup: %w", err)
		}
	}
	if err := os.WriteFile(g.dir("pids")+"/pids.max", []byte(strconv.FormatInt(processes, 10)), 0o644); err != nil {
		return g, fmt.Errorf("bound processes: %w", err)
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

// join moves the calling process into the group.
func (g group) join() error {
	for _, c := range controllers {
		if err := os.WriteFile(g.dir(c)+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	return nil
}

func readInt(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", path, err)
	}
	return n, nil
}
