package main

import (
	"errors"
	"syscall"
)

// uninterrupted makes a call that may wait until no signal interrupts it. Go's scheduler sends SIGURG to threads, and Linux starts
// calls on a socket that has time-outs not over again by itself (signal(7)).
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
