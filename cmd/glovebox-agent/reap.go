package main

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what reaped processes have used.
type usage struct {
	cpu    time.Duration
	maxRSS int64
}

// mainExit is how the main process ended, and what it and the processes that ended before it
// have used.
type mainExit struct {
	status syscall.WaitStatus
	used   usage
}

// reap waits for every process of the run, however it was cloned: PID 1 inherits them all. It
// sends the main process's exit when that comes, and the sum when no process is left. It notes
// when the holder, nil for none, is reaped.
func reap(mainPID int, holder *memoryHolder, main chan<- mainExit, used chan<- usage) {
	var sum usage
	for {
		var status syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, unix.WALL, &ru)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD: none is left
			used <- sum
			return
		}
		if !status.Exited() && !status.Signaled() { // a program that asked to be traced by its parent stands still: its time will be over
			continue
		}
		sum.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		sum.maxRSS = max(sum.maxRSS, ru.Maxrss<<10)
		if pid == mainPID {
			main <- mainExit{status, sum}
			mainPID = 0 // its pid may be used again
		}
		if holder != nil && pid == holder.pid {
			holder.reaped.Store(true)
		}
	}
}

// killAll sends SIGKILL to every process except this one.
func killAll() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: there is none
}

// killUntilGone kills until no process is left, and returns what all have used. Once is not
// enough: a process may fork while the signal goes round. If only a memory holder is left that
// can't run any more, it returns known.
func killUntilGone(signalAll func(syscall.Signal), used <-chan usage, known usage, holder *memoryHolder) usage {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		signalAll(syscall.SIGKILL)
		if holder != nil && holder.onlyTaskLeft() {
			return known
		}
		select {
		case sum := <-used:
			return sum
		case <-tick.C:
		}
	}
}
