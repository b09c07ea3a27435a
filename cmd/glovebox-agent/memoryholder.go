package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// memoryHolder is a process that shares a prepared process's memory, and sleeps. gVisor undoes a
// process's memory before anyone sees that it has ended, 11 ms for Python with pandas; but one
// that shares it ends at once, if it isn't the last. So the program is seen to end, and the
// keeper, which is killed then, needs that time while the result is already on its way.
//
// It has a program's rights, and the program can reach it. So it is one of the program's
// processes, and until it can't run any more nothing is collected.
type memoryHolder struct {
	pid int
	// statm and tasks are open for the agent's life: its memory, and the tasks of its group.
	statm, tasks int
	reaped       atomic.Bool // its number may be another's since
}

// maxHeldMemory is how much more than at first a program may hold until its keeper is ended. What a
// program leaves behind by exec counts against its limit for as long as somebody keeps it.
const maxHeldMemory = 32 << 20

// newMemoryHolder is of a process in g that the image's code names.
func newMemoryHolder(name string, g group) (*memoryHolder, error) {
	pid, err := strconv.Atoi(name)
	if err != nil || pid <= 1 {
		return nil, errors.New("it names no process that keeps its memory")
	}
	k := &memoryHolder{pid: pid}
	if k.statm, err = unix.Open(fmt.Sprintf("/proc/%d/statm", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open what keeps its memory: %w", err)
	}
	if k.tasks, err = unix.Open(g.dir(controllers[pids])+"/tasks", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open its group: %w", err)
	}
	if !k.alive() {
		return nil, errors.New("what keeps its memory is none of its processes")
	}
	return k, nil
}

// alive reports whether it is in the group, and has memory.
func (k *memoryHolder) alive() bool {
	memory, tasks, ok := k.sample()
	return ok && !bytes.HasPrefix(memory, []byte("0 ")) && bytes.Contains(append([]byte("\n"), tasks...), k.taskLine())
}

// onlyTaskLeft reports whether no task of the group is left but the keeper, and it can't run any more
// as it has given up its memory. Nothing can come of it then: the second look is of one moment.
func (k *memoryHolder) onlyTaskLeft() bool {
	memory, tasks, ok := k.sample()
	return ok && !k.reaped.Load() && bytes.HasPrefix(memory, []byte("0 ")) && bytes.Equal(append([]byte("\n"), tasks...), k.taskLine())
}

// taskLine is the keeper's among the tasks, after a line's end.
func (k *memoryHolder) taskLine() []byte { return fmt.Appendf(nil, "\n%d\n", k.pid) }

// sample reads its memory, then the tasks, as far as these matter.
func (k *memoryHolder) sample() (memory, tasks []byte, ok bool) {
	b := make([]byte, 1024)
	n, err := unix.Pread(k.statm, b[:512], 0)
	if err != nil {
		return nil, nil, false
	}
	m, err := unix.Pread(k.tasks, b[512:], 0)
	if err != nil {
		return nil, nil, false
	}
	return b[:n], b[512 : 512+m], true
}

// kill kills it. It may be dead already, of the program's doing; its number is nobody else's
// then but, at worst, one of the program's own processes.
func (k *memoryHolder) kill() {
	_ = unix.Kill(k.pid, unix.SIGKILL)
}
