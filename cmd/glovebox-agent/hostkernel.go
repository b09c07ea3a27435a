package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostKernel says that the sandbox's kernel is the host's, because the worker has said so: this process
// is in namespaces of its own, with one user, and gVisor is not asked for. It is set once, before anything else.
var hostKernel bool //nolint:gochecknoglobals // a property of the process, as its pid is

// processArgument is the first argument of an agent whose worker isolates its programs by processes only. The
// worker starts such an agent itself; nothing that a job can say becomes one of its arguments, and in gVisor it has none.
const processArgument = "--isolation=process"

// errArguments: a sandbox is told nothing else.
var errArguments = errors.New("refuse to run: want no arguments, or " + processArgument + " --disk-mb=N --shm-mb=N")

// takeArguments makes the sandbox of an agent that is to run on the host's kernel.
func takeArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) != 3 || args[0] != processArgument {
		return errArguments
	}
	diskMB, diskErr := argument(args[1], "--disk-mb=")
	shmMB, shmErr := argument(args[2], "--shm-mb=")
	if diskErr != nil || shmErr != nil {
		return errArguments
	}
	if err := checkNamespaces(); err != nil {
		return fmt.Errorf("refuse to run: %w", err)
	}
	hostKernel = true
	// What the worker was started with, and does not know of, is nothing for a program.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from programs: %w", err)
	}
	if err := enterRoot(diskMB, shmMB); err != nil {
		return fmt.Errorf("make a root for programs: %w", err)
	}
	if err := raiseLoopback(); err != nil {
		return fmt.Errorf("set up loopback: %w", err)
	}
	forgetConnections()
	return giveUpRights()
}

func argument(arg, prefix string) (int64, error) {
	digits, ok := strings.CutPrefix(arg, prefix)
	if !ok {
		return 0, errArguments
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 {
		return 0, errArguments
	}
	return int64(n), nil
}

// checkNamespaces fails unless this is the first process of a sandbox: with a user namespace of one user it can't be anything else.
func checkNamespaces() error {
	if os.Getpid() != 1 || os.Getuid() != jobID || os.Getgid() != jobID {
		return fmt.Errorf("this is pid %d, uid %d, gid %d", os.Getpid(), os.Getuid(), os.Getgid())
	}
	for _, name := range []string{"uid_map", "gid_map"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			return err
		}
		if f := strings.Fields(string(b)); len(f) != 3 || f[0] != strconv.Itoa(jobID) || f[2] != "1" {
			return fmt.Errorf("%s is %q: this is no user namespace with one user", name, b)
		}
	}
	return nil
}

// raiseLoopback: programs can talk to themselves, and to nobody else.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// forgetConnections has the kernel forget a connection as it is closed. It would list it for a minute: the next test would see it, and it would
// count as left. Where the kernel can't be told, it counts, and the sandbox is given up.
func forgetConnections() {
	_ = os.WriteFile("/proc/sys/net/ipv4/tcp_max_tw_buckets", []byte("0"), 0)
}

// giveUpRights leaves the agent only what it needs to take rights from programs. It has one user with
// them, and so protects itself: they can neither trace it nor read what /proc has of it, as it is not
// dumpable and has a capability that they lack.
func giveUpRights() error {
	// Should the host run out of memory, programs go before its own processes.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("offer memory: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	caps[0].Effective, caps[0].Permitted = 1<<unix.CAP_SETPCAP, 1<<unix.CAP_SETPCAP
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&caps[0])), 0); e != 0 {
		return fmt.Errorf("give up capabilities: %w", e)
	}
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("set no_new_privs: %w", e)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep programs from reading the agent: %w", err)
	}
	return nil
}

// spareThreads is by how much the agent's threads may multiply while a program runs.
const spareThreads = 8

// boundByHost makes limits of what the host's kernel can keep: it counts the agent's threads with the program's, as they have one user, and lets
// nobody have more than the worker may.
func boundByHost(limits []limit) {
	for i := range limits {
		l := &limits[i]
		if l.name == "NPROC" {
			l.value.Max += 1 + uint64(ownThreads()+spareThreads)
		}
		var most syscall.Rlimit
		if err := syscall.Getrlimit(int(l.resource), &most); err == nil {
			l.value.Max = min(l.value.Max, most.Max)
		}
		if l.name == "CORE" { // too little for a core file; with 0 the kernel would still start the host's handler of crashes (core(5))
			l.value.Max = min(1, most.Max)
		}
		l.value.Cur = l.value.Max
	}
}
