package dev

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// TestForward carries both directions, a side that has said all before it is answered, and
// connections that are open when it ends.
func TestForward(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := forward(l, socket)
	connect := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	if n, err := connect().Read(make([]byte, 1)); err == nil {
		t.Errorf("with nobody at the socket: read %d bytes", n)
	}

	echo, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				all, err := io.ReadAll(c) // to its end, before it answers
				if err == nil {
					_, _ = c.Write(all) // the test compares
				}
			}()
		}
	}()
	said := bytes.Repeat([]byte("glovebox"), 1<<17)
	c := connect()
	if _, err := c.Write(said); err != nil {
		t.Fatal(err)
	}
	if err := closeWrite(c); err != nil {
		t.Fatal(err)
	}
	if heard, err := io.ReadAll(c); err != nil || !bytes.Equal(heard, said) {
		t.Errorf("heard %d bytes, %v, want the %d that were said", len(heard), err, len(said))
	}

	open := connect()
	if _, err := open.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n, err := open.Read(make([]byte, 1)); err == nil {
		t.Errorf("after its end: read %d bytes", n)
	}
}
