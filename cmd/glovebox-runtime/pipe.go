package main

import "syscall"

const (
	fSetPipeSize = 1031    // F_SETPIPE_SZ
	widest       = 1 << 20 // what fs.pipe-max-size lets everybody have, unless it was lowered
)

// widen makes the pipe on which the agent writes hold all that the worker has granted. In one
// of the usual 64 KiB, conmon takes 8 KiB at a time and wakes the sandbox each time for as
// much: of the CPU time of a large artifact that was a third. It is only about time: where
// the user has too much in pipes already (fs.pipe-user-pages-soft), it stays as it is.
func widen(pipe uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, pipe, fSetPipeSize, widest)
}
