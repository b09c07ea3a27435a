package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAsk: three pipes, or an error that says why there are none.
func TestAsk(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 64)
	tests := []struct {
		name   string
		answer func(c *net.UnixConn) // the worker's
		says   string                // part of the error
	}{
		{name: "pipes", answer: func(c *net.UnixConn) { give(t, c, 0, 3) }},
		{name: "none", answer: func(*net.UnixConn) {}, says: "waits for no sandbox"},
		{name: "a word", answer: func(c *net.UnixConn) { _, _ = c.Write([]byte("x")) }, says: "waits for no sandbox"},
		{name: "too few", answer: func(c *net.UnixConn) { give(t, c, 0, 2) }, says: "2 of 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, heard := fakeWorker(t, tt.answer)
			fds, err := requestPipes(path, id)
			for _, fd := range fds {
				if err := syscall.Close(fd); err != nil {
					t.Error(err)
				}
			}
			if said := heard(); said != "p"+id+"\x00\x00" {
				t.Errorf("the worker heard %q", said)
			}
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error with %q", err, tt.says)
			}
			if tt.says == "" && len(fds) != 3 {
				t.Errorf("got %d pipes", len(fds))
			}
		})
	}
}

// TestAskInterrupted: signals, which Go's scheduler sends to threads, keep nobody from an answer.
func TestAskInterrupted(t *testing.T) {
	t.Parallel()
	thread, signaled := make(chan int, 1), make(chan struct{})
	path, heard := fakeWorker(t, func(c *net.UnixConn) {
		<-signaled
		give(t, c, 0, 3)
	})
	go func() {
		defer close(signaled)
		tid := <-thread
		for range 50 {
			if _, _, e := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(tid), uintptr(syscall.SIGURG)); e != 0 {
				t.Error(e)
			}
			time.Sleep(time.Millisecond) // so that it waits again
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread <- syscall.Gettid()
	fds, err := requestPipes(path, strings.Repeat("a", 64))
	if heard(); err != nil || len(fds) != 3 {
		t.Errorf("got %d pipes, %v", len(fds), err)
	}
	for _, fd := range fds {
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

// fakeWorker is a socket at which one question is answered. heard says which it was, "" for none, and
// ends it.
func fakeWorker(t *testing.T, answer func(*net.UnixConn)) (path string, heard func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	question := make(chan string, 1)
	go func() {
		defer close(question)
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer c.Close()
		said := make([]byte, 1000)
		n, err := c.Read(said)
		if err != nil {
			t.Error(err)
		}
		question <- string(said[:n])
		answer(c)
	}()
	return path, func() string { l.Close(); return <-question }
}

// give answers with n files.
func give(t *testing.T, c *net.UnixConn, answer byte, n int) {
	t.Helper()
	var fds []int
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix([]byte{answer}, syscall.UnixRights(fds...), nil); err != nil {
		t.Error(err)
	}
}

// TestUseWorkerPipes: a container of nobody keeps what it has; one whose worker is gone is not made.
func TestUseWorkerPipes(t *testing.T) {
	t.Parallel()
	if err := useWorkerPipes(config{}, "x"); err != nil {
		t.Error(err)
	}
	gone := config{Annotations: map[string]string{pipesAnnotation: "/nowhere/s"}}
	if err := useWorkerPipes(gone, "x"); err == nil || !strings.Contains(err.Error(), "/nowhere/s") {
		t.Errorf("got %v, want an error that names the socket", err)
	}
}
