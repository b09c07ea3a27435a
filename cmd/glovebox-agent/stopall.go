package main

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopPatience is how long stopAll tries.
const stopPatience = 3 * time.Second

// stopAll stops every process but this one, and reports whether none runs any more. A process may start another, or let one go on, while
// the signal goes round, so all of them have to be seen stopped twice.
func stopAll() bool {
	pause := 100 * time.Microsecond
	for seen, until := 0, time.Now().Add(stopPatience); time.Now().Before(until); {
		_ = syscall.Kill(-1, syscall.SIGSTOP) // ESRCH: there is none
		if !allStopped() {
			seen = 0
			time.Sleep(pause)
			pause = min(2*pause, time.Millisecond)
			continue
		}
		if seen++; seen == 2 {
			return true
		}
	}
	return false
}

// allStopped reports whether each thread of every other process is stopped, or dead. Each execution ends with it, so it asks the kernel
// for as little as it can.
func allStopped() bool {
	processes, err := numbersIn("/proc")
	if err != nil {
		return false
	}
	for _, pid := range processes {
		if pid == "1" { // this one
			continue
		}
		threads, err := numbersIn("/proc/" + pid + "/task")
		if err != nil {
			return false
		}
		for _, tid := range threads {
			if !isStopped("/proc/" + pid + "/task/" + tid + "/stat") {
				return false
			}
		}
	}
	return true
}

// numbersIn returns the entries of a directory that are numbers; none where it is gone.
func numbersIn(dir string) (names []string, err error) {
	fd, err := open(dir, unix.O_DIRECTORY)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var entries [4096]byte
	for {
		n, err := unix.Getdents(fd, entries[:])
		if gone(err) { // a process that nobody has waited for yet
			return nil, nil
		}
		if err != nil || n == 0 {
			return names, err
		}
		from := len(names)
		_, _, names = unix.ParseDirent(entries[:n], -1, names)
		numbers := names[:from]
		for _, name := range names[from:] {
			if name[0] >= '0' && name[0] <= '9' {
				numbers = append(numbers, name)
			}
		}
		names = numbers
	}
}

// isStopped reports whether the thread of that stat file does not run, or is gone.
func isStopped(path string) bool {
	fd, err := open(path, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	var stat [512]byte
	n, err := unix.Read(fd, stat[:])
	if err != nil {
		return gone(err)
	}
	state := stat[bytes.LastIndexByte(stat[:n], ')')+1 : n] // behind the name, which may have anything in it
	return len(state) > 1 && bytes.IndexByte([]byte("TtZX"), state[1]) >= 0
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, syscall.EINTR) {
			return fd, err
		}
	}
}

func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
