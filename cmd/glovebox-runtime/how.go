package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The bits of a worker's answer to askStart; none: the sandbox is started plainly.
const (
	// startFromSnapshot comes with files: the three of a snapshot, or the one of a paused sandbox.
	startFromSnapshot = 1
	// startForControl: the worker wants the sandbox's control socket once it is started, to
	// make a snapshot of it or to pause it.
	startForControl = 2
)

// how is how a worker wants a sandbox to be started.
type how struct {
	snapshot []int // files that it goes on from; nil: the sandbox starts with its first process
	worker   int   // the socket of a worker that waits for the sandbox's control socket; -1: none does
}

// askHow asks the worker of a sandbox, if a worker has made it and its root is a root image.
func askHow(runsc string, s sandboxState, id string) (how, error) {
	h := how{worker: -1}
	path := s.Spec.Annotations[pipesAnnotation]
	if path == "" || s.Spec.Annotations[rootSource] == "" {
		return h, nil
	}
	madeOf, err := identity(runsc, s)
	if err != nil {
		return h, err
	}
	socket, err := askWorker(path, askStart, id, madeOf)
	if err != nil {
		return h, fmt.Errorf("ask the worker at %s how to start container %s: %w", path, id, err)
	}
	answer, files, err := receiveAnswer(socket)
	h.snapshot, h.worker = files, socket
	if from := answer&startFromSnapshot != 0; err == nil && (answer > startFromSnapshot|startForControl || from != (len(files) == 1 || len(files) == 3) || !from && len(files) > 0) {
		err = fmt.Errorf("its answer %d has %d files", answer, len(files))
	}
	if err != nil {
		h.close()
		return how{worker: -1}, fmt.Errorf("ask the worker at %s how to start container %s: %w", path, id, err)
	}
	if answer&startForControl == 0 {
		h.worker = -1
		_ = syscall.Close(socket)
	}
	return h, nil
}

// special reports whether runsc itself can't start the sandbox as the worker wants it.
func (h how) special() bool { return h.snapshot != nil || h.worker >= 0 }

// handOver gives the sandbox's control socket to a worker that waits for it. A sandbox that has restored a kernel ends all connections
// of before, this program's with them, so the worker gets one that is made anew.
func (h how) handOver(sandbox *os.File, path string) error {
	if h.worker < 0 {
		return nil
	}
	if h.snapshot != nil {
		socket, err := connect(path, 0)
		if err != nil {
			return err
		}
		sandbox = os.NewFile(uintptr(socket), path)
		defer sandbox.Close()
	}
	err := uninterrupted(func() error {
		return syscall.Sendmsg(h.worker, []byte{0}, syscall.UnixRights(int(sandbox.Fd())), nil, 0)
	})
	if err != nil {
		return fmt.Errorf("give the sandbox's control socket to the worker: %w", err)
	}
	return nil
}

func (h how) close() {
	for _, fd := range append(h.snapshot, h.worker) {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}

// identity names the files that a sandbox is made of: runsc, the root image and the agent's image. A
// snapshot has none of their contents, and so is good for a sandbox of the same files only. An image
// doesn't change once it has its name; its times only say when it was last used.
func identity(runsc string, s sandboxState) (string, error) {
	images := []string{s.Spec.Annotations[rootSource]}
	for _, m := range s.Spec.Mounts {
		if m.Type == "erofs" {
			images = append(images, m.Source)
		}
	}
	var id strings.Builder
	var stat syscall.Stat_t
	err := syscall.Stat(runsc, &stat)
	fmt.Fprintf(&id, "%x-%x-%x-%x.%x", stat.Dev, stat.Ino, stat.Size, stat.Mtim.Sec, stat.Mtim.Nsec)
	for _, image := range images {
		err = errors.Join(err, syscall.Stat(image, &stat))
		fmt.Fprintf(&id, ";%s %x-%x-%x", filepath.Base(image), stat.Dev, stat.Ino, stat.Size)
	}
	if err != nil {
		return "", fmt.Errorf("find what the sandbox is made of: %w", err)
	}
	return id.String(), nil
}
