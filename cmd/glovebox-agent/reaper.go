package main

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper waits for every process of a session, however it was cloned: PID 1 inherits them all. It tells each interpreter's end to whom it may concern.
type reaper struct {
	mu    sync.Mutex // held while a process is started, so that its end comes after
	mains map[int]chan<- mainExit
	begun chan struct{} // one was
}

func newReaper() *reaper {
	r := &reaper{mains: map[int]chan<- mainExit{}, begun: make(chan struct{}, 1)}
	go r.run()
	return r
}

// start has begin start a process, whose end main gets, without being waited for. A pid of 0 says that there is none.
func (r *reaper) start(main chan<- mainExit, begin func() (pid int, err error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := begin()
	if err != nil || pid == 0 {
		return err
	}
	r.mains[pid] = main
	select {
	case r.begun <- struct{}{}:
	default:
	}
	return nil
}

func (r *reaper) run() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD: none is left
			<-r.begun
			continue
		case !status.Exited() && !status.Signaled(): // a program that asked to be traced by its parent stands still: its time will be over
			continue
		}
		r.mu.Lock()
		if main := r.mains[pid]; main != nil {
			delete(r.mains, pid) // it may be used again
			main <- mainExit{status: status}
		}
		r.mu.Unlock()
	}
}
