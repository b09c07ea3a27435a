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

// mainExit is how the main process ended, and what it and those that ended before it have used.
type mainExit struct {
	status syscall.WaitStatus
	used   usage
}

// reap waits for every process of the run, however it was cloned: PID 1 inherits them all. It sends the main
// process's end when there is one, and the sum when no process is left. The keeper, nil for none, is told of its own.
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
		sum.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		sum.maxRSS = max(sum.maxRSS, ru.Maxrss<<10)
		if pid == mainPID {
			main <- mainExit{status, sum}
			mainPID = 0 // its number may come again
		}
		if holder != nil && pid == holder.pid {
			holder.reaped.Store(true)
		}
	}
}

// killAll sends SIGKILL to every process but this one.
func killAll() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: there is none
}

// killUntilGone kills until none is left. Once is not enough: a process may fork while the
// signal goes round. known is the answer where only a keeper is left, and can't run any more.
func killUntilGone(used <-chan usage, known usage, holder *memoryHolder) usage {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		killAll()
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
