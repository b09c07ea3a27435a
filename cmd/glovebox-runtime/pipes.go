package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// pipesAnnotation names the socket of the worker that made a container.
const pipesAnnotation = "run.glovebox.pipes"

// requestTimeout bounds each step of a request, seconds.
const requestTimeout = 10

// What this program asks a worker: the pipes of a sandbox that is to be made, or how it is to be
// started.
const (
	askPipes = 'p'
	askStart = 's'
)

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

// requestPipes gets the pipes from the worker.
func requestPipes(path, id string) ([]int, error) {
	s, err := askWorker(path, askPipes, id, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(s) }()
	_, pipes, err := receiveAnswer(s)
	if err == nil && len(pipes) == 0 {
		err = errNoAnswer
	}
	if err == nil && len(pipes) != 3 {
		err = fmt.Errorf("it gave %d of 3", len(pipes))
	}
	return pipes, err
}

// askWorker sends a question about a container to the worker at its socket, which the caller closes.
func askWorker(path string, question byte, id, detail string) (socket int, err error) {
	s, err := connect(path, requestTimeout)
	if err != nil {
		return -1, err
	}
	message := append([]byte{question}, id...)
	message = binary.BigEndian.AppendUint16(message, uint16(len(detail))) //nolint:gosec // it has some hundred bytes
	message = append(message, detail...)
	err = uninterrupted(func() error { _, err := syscall.Write(s, message); return err })
	if err != nil {
		return -1, errors.Join(err, syscall.Close(s))
	}
	return s, nil
}

// errNoAnswer is how a worker refuses.
var errNoAnswer = errors.New("it gave none: it waits for no sandbox of this container")

// receiveAnswer receives a byte, and up to three files.
func receiveAnswer(socket int) (answer byte, files []int, err error) {
	b, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(3*4))
	var n, r int
	err = uninterrupted(func() error {
		n, r, _, _, err = syscall.Recvmsg(socket, b, rights, syscall.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, errNoAnswer
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:r])
	if err != nil || len(messages) != 1 {
		return b[0], nil, err
	}
	files, err = syscall.ParseUnixRights(&messages[0])
	return b[0], files, err
}
