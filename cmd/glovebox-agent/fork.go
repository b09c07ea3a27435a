package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is a process between its fork and its exec, in which it bounds itself, gives up
// every right and becomes the program. It has the agent's memory meanwhile (vfork), and
// the agent's thread stands still: so all that it needs is here before, and it says here
// how far it came. No code of a job runs at that time.
//
// In a process of its own this would be a second start of Go, a tenth of what a fresh
// sandbox costs (docs/benchmarks/start.md).
type child struct {
	streams  [3]uintptr // that become 0, 1 and 2
	control  uintptr    // that becomes controlFD, or noControl
	groups   []uintptr
	dir      *byte
	id       uintptr // uid and gid
	umask    uintptr
	zero     *byte // "0": the writer itself, for cgroup.procs
	limits   []limit
	bounding []uintptr
	self     unix.CapUserHeader
	kept     [2]unix.CapUserData // capabilities: a fork server has two
	filter   *unix.SockFprog
	// hostFilter is a second one, and keepGroups says that the kernel lets nobody drop groups: both where
	// the kernel is the host's.
	hostFilter *unix.SockFprog
	keepGroups bool
	// unblocked is the empty set of signals.
	unblocked uint64
	paths     []*byte
	argv      []*byte // both end with nil
	env       []*byte

	// at is the step that failed, if errno is not 0.
	at    step
	errno syscall.Errno
}

const noControl = ^uintptr(0)

// step is one of those that a child takes.
type step int

const (
	stepSession step = iota
	stepGroup
	stepStreams
	stepLimits
	stepBounding
	stepGroups
	stepGID
	stepUID
	stepDirectory
	stepCapabilities
	stepNoNewPrivileges
	stepFilter
	stepSignals
	stepExec
)

// stepNames are as a fault says them.
var stepNames = [...]string{
	"make session", "join cgroup", "set streams", "limit resources", "drop bounding set", "drop groups",
	"set gid", "set uid", "enter " + workDir, "clear capabilities", "set no_new_privs", "refuse system calls", "unblock signals", "execute",
}

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// vfork is the system call clone with these flags. The child returns first, on the same
// stack. In vfork_*.s.
func vfork(flags uintptr) (pid uintptr, errno syscall.Errno)

// fork starts the child; the caller then calls afterFork. The child never returns, and
// calls nothing that could allocate or grow the stack, which is the parent's; the parent
// returns at once, because of what it finds on the stack nothing is its own any more.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork() (pid uintptr, errno syscall.Errno) {
	var e syscall.Errno // what the child declares must not be allocated later
	var i int
	var denied bool

	beforeFork()
	pid, errno = vfork(unix.CLONE_VFORK | unix.CLONE_VM | uintptr(syscall.SIGCHLD))
	if errno != 0 || pid != 0 {
		return pid, errno
	}

	c.at = stepSession
	if _, _, e = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); e != 0 {
		goto failed
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_UMASK, c.umask, 0, 0) // can't fail
	c.at = stepGroup
	for i = range c.groups {
		if _, _, e = syscall.RawSyscall(unix.SYS_WRITE, c.groups[i], uintptr(unsafe.Pointer(c.zero)), 1); e != 0 {
			goto failed
		}
	}
	c.at = stepStreams
	for i = range c.streams { // the agent's own are 0, 1 and 2, so none of these is
		if _, _, e = syscall.RawSyscall(unix.SYS_DUP3, c.streams[i], uintptr(i), 0); e != 0 {
			goto failed
		}
	}
	switch c.control {
	case noControl:
	case controlFD:
		_, _, e = syscall.RawSyscall(unix.SYS_FCNTL, controlFD, unix.F_SETFD, 0)
	default:
		_, _, e = syscall.RawSyscall(unix.SYS_DUP3, c.control, controlFD, 0)
	}
	if e != 0 {
		goto failed
	}
	c.at = stepLimits
	for i = range c.limits {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, c.limits[i].resource, uintptr(unsafe.Pointer(&c.limits[i].value)), 0, 0, 0); e != 0 {
			goto failed
		}
	}
	c.at = stepBounding
	for i = range c.bounding {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c.bounding[i], 0, 0, 0, 0); e != 0 {
			goto failed
		}
	}
	// gVisor has no ambient set before it knows the operation: EINVAL means there is none.
	c.at = stepCapabilities
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); e != 0 && e != syscall.EINVAL {
		goto failed
	}
	c.at = stepGroups
	if !c.keepGroups {
		if _, _, e = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			goto failed
		}
	}
	c.at = stepGID
	if _, _, e = syscall.RawSyscall(unix.SYS_SETRESGID, c.id, c.id, c.id); e != 0 {
		goto failed
	}
	c.at = stepUID
	if _, _, e = syscall.RawSyscall(unix.SYS_SETRESUID, c.id, c.id, c.id); e != 0 {
		goto failed
	}
	// A directory of the job's may be closed to everybody else, and root has no right left to enter it.
	c.at = stepDirectory
	if _, _, e = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); e != 0 {
		goto failed
	}
	c.at = stepCapabilities
	if _, _, e = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&c.self)), uintptr(unsafe.Pointer(&c.kept[0])), 0); e != 0 {
		goto failed
	}
	c.at = stepNoNewPrivileges
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		goto failed
	}
	c.at = stepFilter
	if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(c.filter)), 0, 0, 0); e != 0 {
		goto failed
	}
	if c.hostFilter != nil {
		if _, _, e = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(c.hostFilter)), 0, 0, 0); e != 0 {
			goto failed
		}
	}
	// The exec gives every signal its default again.
	c.at = stepSignals
	if _, _, e = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.unblocked)), 0, unsafe.Sizeof(c.unblocked), 0, 0); e != 0 {
		goto failed
	}
	c.at = stepExec
	for i = range c.paths {
		_, _, e = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.paths[i])), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
		if e == syscall.EACCES {
			denied = true
		} else if e != syscall.ENOENT && e != syscall.ENOTDIR {
			goto failed
		}
	}
	if denied {
		e = syscall.EACCES
	}
failed:
	c.errno = e
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}
