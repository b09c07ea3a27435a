package main

import (
	"os"
	"syscall"
	"testing"
)

func TestWiden(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	widen(w.Fd())
	const fGetPipeSize = 1032
	if size, _, e := syscall.Syscall(syscall.SYS_FCNTL, r.Fd(), fGetPipeSize, 0); e != 0 || size != widest {
		t.Errorf("got %d, %v, want %d", size, e, widest)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	widen(null.Fd()) // no pipe, nothing to do
}
