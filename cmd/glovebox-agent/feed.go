package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// feed is the stdin of an interactive program: what comes while it runs waits here, as who reads the worker's frames must not
// wait for a program that doesn't read. The protocol bounds it.
type feed struct {
	// reader is the program's end, which is closed once it has that.
	reader *os.File
	writer *os.File

	mu      sync.Mutex
	more    sync.Cond
	waiting []byte
	ended   bool
}

// newFeed returns a feed of a pipe that begins with first, nil for none.
func newFeed(first *os.File) (*feed, error) {
	var ends [2]int
	// As the job's user, who may open it again then: /dev/stdin.
	err := asJob(func() error { return unix.Pipe2(ends[:], unix.O_CLOEXEC) })
	if err != nil {
		return nil, fmt.Errorf("make stdin: %w", err)
	}
	// Our end alone doesn't block: a program's own is to be as any other's.
	if err := unix.SetNonblock(ends[1], true); err != nil {
		return nil, fmt.Errorf("make stdin: %w", err)
	}
	in := &feed{reader: os.NewFile(uintptr(ends[0]), "stdin"), writer: os.NewFile(uintptr(ends[1]), "stdin")}
	in.more.L = &in.mu
	go in.pump(first)
	return in, nil
}

// add sends more, unless the end was sent.
func (in *feed) add(p []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.ended {
		in.waiting = append(in.waiting, p...)
		in.more.Signal()
	}
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
		p := in.waiting
		in.waiting = nil
		in.mu.Unlock()
		if len(p) == 0 {
			return
		}
		if _, err := in.writer.Write(p); err != nil {
			in.end()
			return
		}
	}
}
