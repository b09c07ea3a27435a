package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// memoryHolder is a process that shares a prepared process's memory, and sleeps. gVisor frees a
// process's memory before anyone sees that the process has ended, which takes 11 ms for Python
// with pandas. A process that shares its memory with another ends at once. So the program is seen
// to end, and the memory is freed when the holder is killed, while the result is on its way.
//
// The holder has a program's rights, and the program can reach it. So it counts as one of the
// program's processes, and nothing is collected until it can't run any more.
type memoryHolder struct {
	pid int
	// statm (its memory) and tasks (those of its group) are open for the agent's life.
	statm, tasks int
	reaped       atomic.Bool // its pid may be another process's since
}

// maxHeldMemory is how much more than at first a program may hold before its memory holder is
// killed. The memory that a program gives up by exec counts against its limit while it is held.
const maxHeldMemory = 32 << 20

// newMemoryHolder opens the process in g whose pid the image's code has said.
func newMemoryHolder(name string, g group) (*memoryHolder, error) {
	pid, err := strconv.Atoi(name)
	if err != nil || pid <= 1 {
		return nil, errors.New("it names no process that holds its memory")
	}
	h := &memoryHolder{pid: pid}
	if h.statm, err = unix.Open(fmt.Sprintf("/proc/%d/statm", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open its memory holder: %w", err)
	}
	if h.tasks, err = unix.Open(g.dir(controllers[pids])+"/tasks", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open its group: %w", err)
	}
	if !h.alive() {
		return nil, errors.New("its memory holder is none of its processes")
	}
	return h, nil
}

// alive reports whether the holder is in the group, and has memory.
func (h *memoryHolder) alive() bool {
	memory, tasks, ok := h.sample()
	return ok && !bytes.HasPrefix(memory, []byte("0 ")) && bytes.Contains(append([]byte("\n"), tasks...), h.taskLine())
}

// onlyTaskLeft reports whether no task of the group is left except the holder, and that has given
// up its memory, so it can't run any more. The tasks are read after the memory, at one moment: a
// holder without memory starts nothing.
func (h *memoryHolder) onlyTaskLeft() bool {
	memory, tasks, ok := h.sample()
	return ok && !h.reaped.Load() && bytes.HasPrefix(memory, []byte("0 ")) && bytes.Equal(append([]byte("\n"), tasks...), h.taskLine())
}

// taskLine is the holder's line among the tasks, with the end of the line before it.
func (h *memoryHolder) taskLine() []byte { return fmt.Appendf(nil, "\n%d\n", h.pid) }

// sample reads the holder's memory, then the tasks, as far as these matter.
func (h *memoryHolder) sample() (memory, tasks []byte, ok bool) {
	b := make([]byte, 1024)
	n, err := unix.Pread(h.statm, b[:512], 0)
	if err != nil {
		return nil, nil, false
	}
	m, err := unix.Pread(h.tasks, b[512:], 0)
	if err != nil {
		return nil, nil, false
	}
	return b[:n], b[512 : 512+m], true
}

// kill kills the holder. The program may have killed it already; at worst, its pid is by now that
// of another of the program's processes.
func (h *memoryHolder) kill() {
	_ = unix.Kill(h.pid, unix.SIGKILL)
}
