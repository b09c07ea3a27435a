package main

import (
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostRefused are calls that no program of a sandbox needs, and that lead to parts of the host's kernel in which others have found ways
// out: they answer as a kernel without them does. In gVisor none of them leads to the host.
var hostRefused = []uint32{
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_LOOKUP_DCOOKIE,
}

// hostFamilies are those of sockets. Others are not all bounded by a network namespace: vsock leads to the host of a virtual machine.
var hostFamilies = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// hostFilter is the second filter of a program on the host's kernel; the first one refuses other architectures. Program and agent have
// one user, so it is this filter that refuses signals to the agent, pid 1, and changes of its limits.
func hostFilter() *unix.SockFprog {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ifLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K

		atNumber, atFirst, atSecond, atThird = 0, 16, 24, 32 // in struct seccomp_data; both architectures are little-endian
		x32                                  = 0x40000000
	)
	refuse := func(e syscall.Errno) unix.SockFilter {
		return unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	allow := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW}
	program := []unix.SockFilter{{Code: load, K: atNumber}}
	if runtime.GOARCH == "amd64" { // the same calls once more, with other numbers
		program = append(program, unix.SockFilter{Code: ifLeast, K: x32, Jf: 1}, refuse(syscall.ENOSYS))
	}
	for _, call := range hostRefused {
		program = append(program, unix.SockFilter{Code: ifEqual, K: call, Jf: 1}, refuse(syscall.ENOSYS))
	}
	for _, call := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL} {
		program = append(
			program, unix.SockFilter{Code: ifEqual, K: call, Jf: 4}, unix.SockFilter{Code: load, K: atFirst},
			unix.SockFilter{Code: ifEqual, K: 1, Jf: 1}, refuse(syscall.EPERM), allow,
		)
	}
	// Limits, priorities and processors of other processes: the agent's would hold its watch up, and outlast a test. Some programs set
	// those of their threads, and do without.
	for call, at := range map[uint32]uint32{
		unix.SYS_PRLIMIT64: atFirst, unix.SYS_SCHED_SETAFFINITY: atFirst, unix.SYS_SCHED_SETSCHEDULER: atFirst, unix.SYS_SCHED_SETPARAM: atFirst,
		unix.SYS_SCHED_SETATTR: atFirst, unix.SYS_SETPRIORITY: atSecond, unix.SYS_IOPRIO_SET: atSecond,
	} {
		program = append(
			program, unix.SockFilter{Code: ifEqual, K: call, Jf: 4}, unix.SockFilter{Code: load, K: at},
			unix.SockFilter{Code: ifEqual, K: 0, Jt: 1}, refuse(syscall.EPERM), unix.SockFilter{Code: load, K: atNumber},
		)
	}
	// With another RLIMIT_CORE than ours the host's handler of crashes would be given the program.
	program = append(
		program, unix.SockFilter{Code: ifEqual, K: unix.SYS_PRLIMIT64, Jf: 8}, unix.SockFilter{Code: load, K: atSecond},
		unix.SockFilter{Code: ifEqual, K: unix.RLIMIT_CORE, Jf: 5}, unix.SockFilter{Code: load, K: atThird}, unix.SockFilter{Code: ifEqual, K: 0, Jf: 1},
		unix.SockFilter{Code: load, K: atThird + 4}, unix.SockFilter{Code: ifEqual, K: 0, Jt: 1}, refuse(syscall.EPERM),
		unix.SockFilter{Code: load, K: atNumber},
	)
	program = append(
		program, unix.SockFilter{Code: ifEqual, K: unix.SYS_SETRLIMIT, Jf: 4}, unix.SockFilter{Code: load, K: atFirst},
		unix.SockFilter{Code: ifEqual, K: unix.RLIMIT_CORE, Jf: 1}, refuse(syscall.EPERM), unix.SockFilter{Code: load, K: atNumber},
	)
	program = append(
		program, unix.SockFilter{Code: ifEqual, K: unix.SYS_SOCKETPAIR, Jf: 4}, unix.SockFilter{Code: load, K: atFirst},
		unix.SockFilter{Code: ifEqual, K: unix.AF_UNIX, Jt: 1}, refuse(syscall.EAFNOSUPPORT), unix.SockFilter{Code: load, K: atNumber},
	)
	families := []unix.SockFilter{{Code: load, K: atFirst}}
	for _, family := range hostFamilies {
		families = append(families, unix.SockFilter{Code: ifEqual, K: family, Jf: 1}, allow)
	}
	families = append(families, refuse(syscall.EAFNOSUPPORT))
	program = append(program, unix.SockFilter{Code: ifEqual, K: unix.SYS_SOCKET, Jf: uint8(len(families))})
	program = slices.Concat(program, families, []unix.SockFilter{allow})
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
}
