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
	"unsafe"
)

// group is a cgroup inside the sandbox: gVisor's own, unknown to the host. It counts a run's processes, its memory (private, shared, memfd and tmpfs pages
// alike, by the process that touched them first) and its CPU time. gVisor enforces no
// memory limit there, and pids.max only now and then: it asks one of the task's seven
// hierarchies, taken at random, about a new task, and six know nothing of pids (runsc of
// 2026-09). RLIMIT_NPROC is exact; for the rest the agent watches.
type group struct {
	name string
	// procs are its cgroup.procs, open: a child joins by writing there.
	procs [len(controllers)]uintptr
	// counts are the three that are read many times a second, open for the agent's life.
	counts [len(controllers)]int
	// host counts instead where the kernel is the host's; nil: it is gVisor.
	host *hostGroup
}

const (
	pids = iota
	memory
	cpuacct
)

var (
	controllers = [...]string{pids: "pids", memory: "memory", cpuacct: "cpuacct"}
	countFiles  = [...]string{pids: "pids.current", memory: "memory.usage_in_bytes", cpuacct: "cpuacct.usage"}
)

// testsGroup is the group of all runs on tests, one after another.
const testsGroup = "tests"

const cgroupRoot = "/sys/fs/cgroup"

// dir returns the group's directory in a controller's hierarchy. Memory has one for all runs: what a compile
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
	if hostKernel {
		var err error
		g.host, err = newHostGroup()
		return g, err
	}
	for i, c := range controllers {
		err := os.Mkdir(g.dir(c), 0o755)
		if err != nil && (i != memory || !errors.Is(err, os.ErrExist)) { // it may be of the run before
			return g, fmt.Errorf("make cgroup: %w", err)
		}
		procs, err := syscall.Open(g.dir(c)+"/cgroup.procs", syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return g, fmt.Errorf("open cgroup %s: %w", c, err)
		}
		g.procs[i] = uintptr(procs)
		if g.counts[i], err = syscall.Open(g.dir(c)+"/"+countFiles[i], syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
			return g, fmt.Errorf("open cgroup %s: %w", c, err)
		}
	}
	return g, nil
}

// memory returns what the group uses now, bytes.
func (g group) memory() (int64, error) {
	if g.host != nil {
		return g.host.memory()
	}
	return g.count(memory)
}

// releaseTimeout is how long gVisor may take to give back the memory of processes that have ended.
const releaseTimeout = 2 * time.Second

// awaitBelow waits, for a while, until the group holds less: gVisor gives memory back some time after its
// processes have ended, and until then it would count as the next one's.
func (g group) awaitBelow(bytes int64) {
	for deadline := time.Now().Add(releaseTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if held, err := g.memory(); err != nil || held < bytes {
			return // a program that starts has its own look
		}
	}
}

// cpu returns the CPU time that the group has used so far.
func (g group) cpu() (time.Duration, error) {
	if g.host != nil {
		return g.host.cpu()
	}
	n, err := g.count(cpuacct)
	return time.Duration(n), err
}

// processes returns how many processes and threads the group has now.
func (g group) processes() (int64, error) {
	if g.host != nil {
		return g.host.processes()
	}
	return g.count(pids)
}

// count reads one of the group's counts, by a call that Go's scheduler isn't told of: the call
// takes no time, and in a sandbox the scheduler's work for it costs more.
func (g group) count(controller int) (int64, error) {
	var b [32]byte
	size, _, e := syscall.RawSyscall6(syscall.SYS_PREAD64, uintptr(g.counts[controller]), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("read %s: %w", countFiles[controller], e)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b[:size])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s: %w", countFiles[controller], err)
	}
	return n, nil
}

// close closes the files. The cgroup itself ends with the sandbox.
func (g group) close() {
	if g.host != nil {
		return
	}
	for i := range controllers {
		syscall.Close(int(g.procs[i]))
		syscall.Close(g.counts[i])
	}
}
