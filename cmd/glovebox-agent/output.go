package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// output sends one stream of the job, up to a limit.
type output struct {
	mu   sync.Mutex // of what follows: contexts of a session print to one stream
	most int64
	sent int64
	// truncate drops what is beyond most, instead of ending the job.
	truncate bool
	// truncated: there was more than most.
	truncated bool
	send      func([]byte) error
}

// add sends p as far as the limit allows.
func (o *output) add(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.addLocked(p)
}

func (o *output) addLocked(p []byte) error {
	p = p[:min(int64(len(p)), o.most-o.sent)]
	o.sent += int64(len(p))
	return o.send(p)
}

// pump copies r until every process that could write to it is gone. It calls exceeded
// when there is more than the limit allows, and reads on, so that nothing blocks.
func (o *output) pump(r *os.File, exceeded func()) error {
	buf := make([]byte, 32<<10)
	read := r.Read
	for {
		n, err := read(buf)
		if sendErr := o.printed(buf[:n], exceeded); sendErr != nil {
			return sendErr
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // no writer is left
			read = func(p []byte) (int, error) { return readNow(r, p) }
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read output: %w", err)
		}
	}
}

// printed is add for what the job has printed.
func (o *output) printed(p []byte, exceeded func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sent+int64(len(p)) > o.most {
		o.truncated = true
		if !o.truncate {
			exceeded()
		}
	}
	return o.addLocked(p)
}

// noWriters tells the pump of r that no process is left that could write, even if r never ends:
// a job can leave its end of the pipe in flight between two sockets of its own, where no kernel
// closes it.
func noWriters(r *os.File) error {
	if r == nil {
		return nil
	}
	if err := r.SetReadDeadline(time.Now()); err != nil {
		return fmt.Errorf("end output: %w", err)
	}
	return nil
}

// readNow reads what is there without waiting for more; io.EOF means that there is nothing.
func readNow(r *os.File, p []byte) (n int, err error) {
	raw, err := r.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	if err := raw.Control(func(fd uintptr) { n, readErr = syscall.Read(int(fd), p) }); err != nil {
		return 0, err
	}
	switch {
	case errors.Is(readErr, syscall.EINTR):
		return 0, nil
	case errors.Is(readErr, syscall.EAGAIN), readErr == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), readErr
}
