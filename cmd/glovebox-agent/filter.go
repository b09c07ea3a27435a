package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// auditArch is what a filter sees of the architecture that a system call is made for.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// newNamespaces are clone's flags that make one.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filter makes the kernel refuse some calls to a program and to all that comes of it. It
// needs no_new_privs.
//
// New namespaces: in a user namespace of its own a job would have every capability
// again, bounding set included: it could mount file systems and trace what it can't
// otherwise, and so reach much more of gVisor. clone3 passes its flags in memory, where
// no filter can look: it answers as a kernel without it does, and C libraries fall back
// to clone.
//
// fallocate: gVisor fills the whole range in one call of the host's, which no watch can
// stop half-way: 60 of them held 2.4 GiB of the host before the kill came. It answers as
// a file system without it does, and C libraries write a byte a page instead.
//
// Keyrings: gVisor keeps one that has a name for as long as the sandbox lives, whoever made it, so what is
// run on one test could read what the one before left there. No language needs them: they answer as a
// kernel that was built without them does.
//
// Calls for another architecture are all refused.
//
// With noIPC also System V's and POSIX's objects for communication between processes, which outlive
// them: what is run on one test could leave something there for the next.
//
// With noInternet also sockets of the internet's protocols: a port is in use for a minute after both ends of
// a connection over the loopback interface are gone, and whoever tries to have it sees that. They answer as a kernel that was built
// without the protocols does.
func filter(noIPC, noInternet bool) (*unix.SockFprog, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("refuse system calls: no filter for %s", runtime.GOARCH)
	}
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ifAny   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K
		// Offsets in struct seccomp_data; both architectures are little-endian.
		atNumber, atArch, atFlags = 0, 4, 16
	)
	program := []unix.SockFilter{
		{Code: load, K: atArch},
		{Code: ifEqual, K: arch, Jf: 9},
		{Code: load, K: atNumber},
		{Code: ifEqual, K: unix.SYS_UNSHARE, Jt: 7},
		{Code: ifEqual, K: unix.SYS_SETNS, Jt: 6},
		{Code: ifEqual, K: unix.SYS_CLONE3, Jt: 6},
		{Code: ifEqual, K: unix.SYS_FALLOCATE, Jt: 6},
		{Code: ifEqual, K: unix.SYS_CLONE, Jf: 2},
		{Code: load, K: atFlags},
		{Code: ifAny, K: newNamespaces, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.EPERM)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.ENOSYS)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.EOPNOTSUPP)},
	}
	absent := []uint32{unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY}
	if noIPC {
		absent = append(absent, unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET, unix.SYS_MQ_OPEN)
	}
	var more []unix.SockFilter // each with where its jump leads, from the first
	for _, call := range absent {
		more = append(more, unix.SockFilter{Code: ifEqual, K: call, Jt: 8}) // to ENOSYS
	}
	if noInternet {
		more = append(more, unix.SockFilter{Code: ifEqual, K: unix.SYS_SOCKET, Jt: 10}) // to what is behind
		program = append(program,
			unix.SockFilter{Code: load, K: atFlags}, // the protocols' family
			unix.SockFilter{Code: ifEqual, K: unix.AF_INET, Jt: 2},
			unix.SockFilter{Code: ifEqual, K: unix.AF_INET6, Jt: 1},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.EAFNOSUPPORT)},
		)
	}
	program[1].Jf += uint8(len(more)) // over what is inserted below
	for i := range more {
		more[i].Jt += uint8(len(more) - i)
	}
	program = slices.Insert(program, 3, more...)
	return &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}, nil
}
