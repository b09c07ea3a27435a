package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// feed is the stdin of an interactive program: what comes while it runs waits here, as who reads the worker's frames must not
// wait for a program that doesn't read. The protocol bounds it.
type feed struct {
	writer *os.File // nil until open

	mu      sync.Mutex
	more    sync.Cond
	waiting [][]byte // pieces of up to MaxPayload bytes: small ones are put together
	ended   bool
}

func newFeed() *feed {
	in := &feed{}
	in.more.L = &in.mu
	return in
}

// open makes the pipe that the feed is written to, behind first, nil for none. The program's end is the caller's to close once the
// program has it.
func (in *feed) open(first *os.File, user uintptr) (reader *os.File, err error) {
	var ends [2]int
	// As the program's user, who may open it again then: /dev/stdin.
	err = asUser(user, func() error { return unix.Pipe2(ends[:], unix.O_CLOEXEC) })
	if err != nil {
		return nil, fmt.Errorf("make stdin: %w", err)
	}
	// Our end alone doesn't block: a program's own is to be as any other's.
	if err := unix.SetNonblock(ends[1], true); err != nil {
		return nil, fmt.Errorf("make stdin: %w", err)
	}
	in.writer = os.NewFile(uintptr(ends[1]), "stdin")
	go in.pump(first)
	return os.NewFile(uintptr(ends[0]), "stdin"), nil
}

// add sends more, unless the end was sent.
func (in *feed) add(p []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return
	}
	if last := len(in.waiting) - 1; last >= 0 && len(in.waiting[last])+len(p) <= agentwire.MaxPayload {
		in.waiting[last] = append(in.waiting[last], p...)
	} else {
		in.waiting = append(in.waiting, p)
	}
	in.more.Signal()
}

// end closes the program's stdin behind what waits.
func (in *feed) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.more.Signal()
}

// close gives up what waits: nobody will read it.
func (in *feed) close() {
	in.end()
	in.writer.Close() // wakes a pump that writes
}

// pump writes what comes, until the end or until nobody reads any more.
func (in *feed) pump(first *os.File) {
	defer in.writer.Close()
	if first != nil {
		defer first.Close()
		// Plain reads and writes: to splice from a file without a name is more than gVisor has to know.
		if _, err := io.Copy(struct{ io.Writer }{in.writer}, struct{ io.Reader }{first}); err != nil {
			in.end()
			return
		}
	}
	for {
		in.mu.Lock()
		for len(in.waiting) == 0 && !in.ended {
			in.more.Wait()
		}
		if len(in.waiting) == 0 {
			in.mu.Unlock()
			return
		}
		p := in.waiting[0]
		in.waiting[0] = nil
		in.waiting = in.waiting[1:]
		in.mu.Unlock()
		if _, err := in.writer.Write(p); err != nil {
			in.end()
			return
		}
	}
}
