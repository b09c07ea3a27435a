package config

import (
	"errors"
	"testing"
)

// TestListen: an address that is none is told from one that is taken.
func TestListen(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"8438", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:no-such-port", "fd:x", "::1:80:90", ""} {
		if l, err := Listen(t.Context(), addr); !errors.Is(err, ErrAddr) {
			if err == nil {
				l.Close()
			}
			t.Errorf("%q: got %v, want that it is no address", addr, err)
		}
	}
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if again, err := Listen(t.Context(), l.Addr().String()); err == nil || errors.Is(err, ErrAddr) {
		if err == nil {
			again.Close()
		}
		t.Errorf("one that is taken: got %v", err)
	}
}
