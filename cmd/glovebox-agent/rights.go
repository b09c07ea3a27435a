package main

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asJob is asUser for the user that most programs are run as.
func asJob(f func() error) error { return asUser(jobID, f) }

// asUser runs f on a thread of its own that has a job's rights to files: root without
// CAP_DAC_OVERRIDE can neither write to the job's directories nor read its 0600 files,
// and must not be able to. f must not run while code of the job does: the thread's real
// uid is still root's. The thread is never used again.
func asUser(id uintptr, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		const keep = ^uintptr(0)
		if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, keep, id, keep); e != 0 {
			done <- fmt.Errorf("take the job's gid: %w", e)
			return
		}
		if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, keep, id, keep); e != 0 {
			done <- fmt.Errorf("take the job's uid: %w", e)
			return
		}
		done <- f()
	}()
	return <-done
}
