package podman

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A sandbox is usually started with its first process, the agent. It can also be started from a
// snapshot; and one that is to become a snapshot has its worker told where it is controlled.

// The bits of the answer to askStart (glovebox-runtime's how.go); none: plainly.
const (
	startFromSnapshot = 1 // with the files of a snapshot, or of a paused sandbox
	startForControl   = 2 // the OCI runtime then sends the sandbox's control socket
)

// startMode is how a sandbox is to be started; the zero value means in the usual way.
type startMode struct {
	from    *snapshot // what it goes on from
	resumes *resumed  // the paused sandbox that goes on in it
	becomes bool      // it becomes a snapshot
	control bool      // it may be paused: the worker is given its control socket, if there is one to be had
}

// asked reports whether the sandbox is only good if the OCI runtime has asked how to start it.
func (m startMode) asked() bool { return m.from != nil || m.resumes != nil || m.becomes }

// specialStart is one start of a sandbox that is not started in the usual way.
type specialStart struct {
	startMode
	// done gets what the OCI runtime was told; it has room for one.
	done chan startedSandbox
}

// special returns the mode's next start, nil for the usual way.
func (m startMode) special() *specialStart {
	if m == (startMode{}) {
		return nil
	}
	return &specialStart{startMode: m, done: make(chan startedSandbox, 1)}
}

// askedTimeout is how long it may take until it is known here that the OCI runtime has asked how to start
// a sandbox that Podman has said to be started.
const askedTimeout = 5 * time.Second

// result waits for what the OCI runtime was told.
func (s *specialStart) result() (startedSandbox, error) {
	select {
	case said := <-s.done:
		return said, said.err
	case <-time.After(askedTimeout):
		return startedSandbox{}, errors.New("the OCI runtime did not ask how to start the sandbox: its image has no root image, or the runtime, or runsc, is not this version's")
	}
}

// abandon is for a start that has failed: it returns why the worker did not let it go on, if so.
func (s *specialStart) abandon() error {
	select {
	case said := <-s.done:
		if said.control != nil {
			said.control.Close()
		}
		return said.err
	default:
		return nil
	}
}

// startedSandbox is what the OCI runtime has told of a special start.
type startedSandbox struct {
	madeOf  string   // the files that the sandbox is made of, as glovebox-runtime identifies them
	control *os.File // the sandbox's control socket, where that was wanted
	err     error
}

// errOtherFiles is why a sandbox is not started from a snapshot.
var errOtherFiles = errors.New("the snapshot is of a sandbox that was made of other files")

// controlTimeout is how long a sandbox may take to start, once the OCI runtime has asked how.
const controlTimeout = 30 * time.Second

// expect notes how a container's next sandbox is to be started; forget takes that back.
func (s *pipeServer) expect(container string, start *specialStart) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts[container] = start
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.starts[container] == start {
			delete(s.starts, container)
		}
	}
}

// sayHow tells an OCI runtime how to start a container's sandbox.
func (s *pipeServer) sayHow(c *net.UnixConn, id, madeOf string) error {
	s.mu.Lock()
	start, ok := s.starts[id]
	delete(s.starts, id)
	s.mu.Unlock()
	if !ok {
		_, err := c.Write([]byte{0})
		return err
	}
	said := startedSandbox{madeOf: madeOf}
	if said.err = start.answer(c, madeOf); said.err == nil && (start.becomes || start.control) {
		said.control, said.err = awaitControl(c)
	}
	start.done <- said // there is room: the start was taken out above, so this comes once
	return said.err
}

// answer tells the OCI runtime how to start the sandbox. Without an answer it starts nothing.
func (s *specialStart) answer(c *net.UnixConn, madeOf string) error {
	timeout := controlTimeout
	if s.resumes != nil {
		timeout = pauseTimeout
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	var how byte
	if s.becomes || s.control {
		how |= startForControl
	}
	files, err := s.files(madeOf)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		how |= startFromSnapshot
		var fds []int
		for _, f := range files {
			defer f.Close()
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix([]byte{how}, rights, nil); err != nil {
		return fmt.Errorf("answer the OCI runtime: %w", err)
	}
	return nil
}

// files are those that a sandbox which is made of such files goes on from, none for one that begins.
func (s *specialStart) files(madeOf string) ([]*os.File, error) {
	switch {
	case s.from != nil && s.from.madeOf != madeOf, s.resumes != nil && s.resumes.madeOf != madeOf:
		return nil, errOtherFiles
	case s.from != nil: // opened anew: each sandbox reads them from their beginning
		return s.from.open()
	case s.resumes != nil:
		return s.resumes.take()
	}
	return nil, nil
}

// awaitControl receives the control socket of a sandbox once it is started.
func awaitControl(c *net.UnixConn) (*os.File, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights) // package net makes descriptors close on exec
	if err != nil {
		return nil, fmt.Errorf("receive the sandbox's control socket: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, fmt.Errorf("receive the sandbox's control socket: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // it holds none
		}
		for _, fd := range fds {
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) // whatever it is, closing it must not wait
			files = append(files, os.NewFile(uintptr(fd), "control socket"))               //nolint:gosec // a descriptor
		}
	}
	if len(files) == 1 {
		return files[0], nil
	}
	for _, f := range files {
		f.Close()
	}
	return nil, fmt.Errorf("receive the sandbox's control socket: %d descriptors came", len(files))
}
