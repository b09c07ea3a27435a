package podman

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// fakeSandbox answers one call at its end of a control socket. It has the pipe that it was sent.
func fakeSandbox(t *testing.T, answer func(c *net.UnixConn, pipe *os.File)) net.Conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []net.Conn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "control socket")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { c.Close() })
		ends = append(ends, c)
	}
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		c := ends[1].(*net.UnixConn)
		defer c.Close()
		rights := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := c.ReadMsgUnix(make([]byte, 4096), rights)
		if err != nil {
			t.Error(err)
			return
		}
		messages, err := unix.ParseSocketControlMessage(rights[:n])
		if err != nil || len(messages) != 1 {
			t.Errorf("got %v, %v", messages, err)
			return
		}
		files, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			t.Error(err)
			return
		}
		pipe := os.NewFile(uintptr(files[0]), "pipe")
		defer pipe.Close()
		answer(c, pipe)
	}()
	return ends[0]
}

// TestCheckpointInto: whatever a sandbox makes of a checkpoint, and one that was taken over does, it gets no more of the disk than there is, holds nobody
// up, and is believed only where all is there.
func TestCheckpointInto(t *testing.T) {
	t.Parallel()
	const says, refuses = `{"success":true}`, `{"success":false,"err":"no space"}`
	closed := make(chan struct{})
	close(closed)
	for name, tt := range map[string]struct {
		does      func(ctx context.Context, c *net.UnixConn, pipe *os.File)
		interrupt <-chan struct{}
		is        error  // of the error
		says      string // part of it; "": there is none
	}{
		"whole": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			_, _ = pipe.WriteString("state")
			pipe.Close()
			_, _ = io.WriteString(c, says)
		}},
		"it refuses": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			pipe.Close()
			_, _ = io.WriteString(c, refuses)
		}, says: "no space"},
		"it hangs up": {does: func(_ context.Context, _ *net.UnixConn, pipe *os.File) { pipe.Close() }, is: errNoAnswer, says: "EOF"},
		"it talks on": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			pipe.Close()
			_, _ = io.WriteString(c, `{"success":true,"err":"`+strings.Repeat("x", 2*maxControlAnswer))
		}, is: errNoAnswer, says: "unexpected EOF"},
		"it has no end": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			for piece := bytes.Repeat([]byte("x"), pieceSize); ; {
				if _, err := pipe.Write(piece); err != nil {
					break
				}
			}
			_, _ = io.WriteString(c, refuses)
		}, is: errNoDisk, says: "all of the disk"},
		"it has no end, and lies": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			_, _ = io.WriteString(c, says)
			for piece := bytes.Repeat([]byte("x"), pieceSize); ; {
				if _, err := pipe.Write(piece); err != nil {
					break
				}
			}
		}, is: errNoDisk, says: "all of the disk"},
		"it is wanted": {does: func(_ context.Context, c *net.UnixConn, pipe *os.File) {
			for {
				if _, err := pipe.Write([]byte("x")); err != nil {
					break
				}
			}
			_, _ = io.WriteString(c, refuses)
		}, interrupt: closed, is: sandbox.ErrWanted, says: "wanted"},
		"it does nothing": {does: func(_ context.Context, c *net.UnixConn, _ *os.File) { _, _ = io.Copy(io.Discard, c) }, says: "closed"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		disk := &diskBudget{left: 2 << 20}
		state, err := newSealedFile(t.TempDir(), disk, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		control := fakeSandbox(t, func(c *net.UnixConn, pipe *os.File) {
			if name == "it does nothing" {
				cancel() // the session ends
			}
			tt.does(ctx, c, pipe)
		})
		err = checkpointInto(ctx, control, state, tt.interrupt)
		if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: got %v, want %q", name, err, tt.says)
		}
		var got bytes.Buffer
		if err == nil {
			if err := state.copyTo(&got); err != nil || got.String() != "state" {
				t.Errorf("%s: got %q, %v", name, got.String(), err)
			}
		}
		state.close()
		if disk.left != 2<<20 {
			t.Errorf("%s: %d bytes of the disk are left", name, disk.left)
		}
		cancel()
	}
	state, err := newSealedFile(t.TempDir(), &diskBudget{left: 1 << 20}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer state.close()
	if err := state.fill(iotest.TimeoutReader(bytes.NewReader(make([]byte, pieceSize)))); err == nil {
		t.Error("what can't be read is written")
	}
}
