package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asJob is asUser for the user that most programs are run as.
func asJob(f func() error) error { return asUser(jobID, f) }

// asUser runs f on a thread that has a job's rights to files meanwhile: root without
// CAP_DAC_OVERRIDE can neither write to the job's directories nor read its 0600 files,
// and must not be able to. f must not run while code of the job does: the thread's real
// uid is still root's. A new thread for each call would cost more than what most calls do.
func asUser(id uintptr, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := takeIDs(id); err != nil {
		return errors.Join(err, takeIDs(ownID))
	}
	err := f()
	if back := takeIDs(ownID); back != nil {
		panic(back) // no other goroutine may get this thread
	}
	return err
}

// ownID is the agent's uid and gid.
var ownID = uintptr(os.Getuid())

// takeIDs sets the thread's effective user and group, and with them its rights to files.
func takeIDs(id uintptr) error {
	const keep = ^uintptr(0)
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, keep, id, keep); e != 0 {
		return fmt.Errorf("set gid %d: %w", id, e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, keep, id, keep); e != 0 {
		return fmt.Errorf("set uid %d: %w", id, e)
	}
	return nil
}
