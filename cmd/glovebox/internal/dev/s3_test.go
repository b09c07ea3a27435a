package dev

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestNobodyTakesThePlaceOfS3: while the S3 server is started, and started again, nobody else
// can listen at its address. Clients wait, and reach it.
func TestNobodyTakesThePlaceOfS3(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "s3")
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d, err := openData(t.Context(), filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{
		Config: Config{Out: io.Discard}, data: d, logs: map[string]*logFile{}, socketDir: dir,
		tools: tools{versitygw: filepath.Join(gbtest.ToolsDir, "versitygw")},
	}
	s.later(d.close)
	t.Cleanup(func() {
		s.stop()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.listenS3(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context(), s.s3(), ""); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), gbtest.Patience)
	defer cancel()
	taken, stopped := make(chan struct{}), make(chan struct{})
	var stop atomic.Bool
	go func() {
		defer close(stopped)
		for ; !stop.Load(); time.Sleep(time.Millisecond) { // a server that is started again takes a hundred times as long
			if l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.s3Addr); err == nil {
				close(taken) // and kept: what an attacker would do
				<-ctx.Done()
				l.Close()
				return
			}
		}
	}()
	server := s.running[0]
	for range 2 {
		first := server.PID()
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for server.PID() == first || server.PID() == 0 || s.ensureBucket(ctx) != nil {
			select {
			case <-taken:
				t.Fatalf("somebody else listens at %s", s.s3Addr)
			case <-ctx.Done():
				t.Fatal("the S3 server doesn't come back")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	stop.Store(true)
	<-stopped
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
