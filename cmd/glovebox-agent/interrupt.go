package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// standLooks is how often an interpreter is looked at until it stands still and what it has said is heard, each standPause.
const (
	standLooks = 20
	standPause = 50 * time.Microsecond
)

// interrupt sends SIGINT to the interpreter, or the signal that it wants instead, and to what it has started in its process group, and reports whether it
// did. One that has not begun to read its code yet, or masks interrupts, gets none. It can mask them at any moment: so it is stopped first, and what it has said
// until then is heard.
func (i *interpreter) interrupt() bool {
	if i.pid == 0 || i.masked.Load() || queued(i.control, unix.SIOCOUTQ) > 0 {
		return false
	}
	_ = syscall.Kill(i.pid, syscall.SIGSTOP)
	defer syscall.Kill(i.pid, syscall.SIGCONT) //nolint:errcheck // it may have ended
	for looks := 0; !hasStopped(i.pid) || !i.ear.hasAll(); looks++ {
		if looks == standLooks {
			return false
		}
		time.Sleep(standPause)
	}
	if i.masked.Load() {
		return false
	}
	// Its first thread has to take the signal, before it runs on: another one could be late.
	_ = unix.Tgkill(i.pid, i.pid, syscall.Signal(i.signal.Load()))
	processes, _ := numbersIn("/proc")
	for _, name := range processes {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == i.pid || pid == 1 {
			continue
		}
		if group, err := unix.Getpgid(pid); err == nil && group == i.pid {
			_ = syscall.Kill(pid, syscall.SIGINT)
		}
	}
	return true
}

// ear reads from a control socket, and knows whether all that was said has been heard.
type ear struct {
	control *os.File
	busy    atomic.Bool // until all that was read is worked off, and there is no more
}

func (e *ear) Read(p []byte) (n int, err error) {
	raw, err := e.control.SyscallConn()
	if err != nil {
		return 0, err
	}
	waitErr := raw.Read(func(fd uintptr) bool {
		e.busy.Store(true)
		for {
			if n, err = unix.Read(int(fd), p); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if errors.Is(err, unix.EAGAIN) {
			e.busy.Store(false)
			return false
		}
		return true
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// hasAll reports whether nothing is left to hear of what was said before.
func (e *ear) hasAll() bool { return queued(e.control, unix.SIOCINQ) == 0 && !e.busy.Load() }

// queued returns how many bytes wait in a socket: SIOCOUTQ, those that the other end has not read; SIOCINQ, those that this one has not.
func queued(socket *os.File, request uint) (n int) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), request) })
	return n
}
