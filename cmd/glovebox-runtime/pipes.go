package main

import (
	"fmt"
	"syscall"
)

// pipesAnnotation names the socket of the worker that made a container.
const pipesAnnotation = "run.glovebox.pipes"

// requestTimeout bounds each step of a request, seconds.
const requestTimeout = 10

// useWorkerPipes replaces this process's stdin, stdout and stderr, which are conmon's, by the
// worker's pipes: the sandbox inherits them. A container without the annotation was not made by a
// worker, and keeps conmon's.
func useWorkerPipes(c config, id string) error {
	path, ok := c.Annotations[pipesAnnotation]
	if !ok {
		return nil
	}
	pipes, err := requestPipes(path, id)
	if err != nil { // the worker looks for these words: refusedPipes
		return fmt.Errorf("ask the worker at %s for the pipes of container %s: %w", path, id, err)
	}
	for i, fd := range pipes {
		if err := syscall.Dup3(fd, i, 0); err != nil {
			return fmt.Errorf("take the worker's pipe: %w", err)
		}
		if err := syscall.Close(fd); err != nil {
			return fmt.Errorf("take the worker's pipe: %w", err)
		}
	}
	return nil
}

// requestPipes gets the pipes from the worker. (The package net would be half of this program.)
func requestPipes(path, id string) ([]int, error) {
	s, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(s) }()
	for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
		if err := syscall.SetsockoptTimeval(s, syscall.SOL_SOCKET, option, &syscall.Timeval{Sec: requestTimeout}); err != nil {
			return nil, err
		}
	}
	if err := syscall.Connect(s, &syscall.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if _, err := syscall.Write(s, []byte(id)); err != nil {
		return nil, err
	}
	answer, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(3*4))
	_, n, _, _, err := syscall.Recvmsg(s, answer, rights, syscall.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("it gave none: it waits for no sandbox of this container")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err == nil && len(fds) != 3 {
		err = fmt.Errorf("it gave %d of 3", len(fds))
	}
	return fds, err
}
