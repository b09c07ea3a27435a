package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// TestFeed: a program reads what comes for it, before and after its start, in order and to the end; nothing waits for one that
// doesn't read, and what comes late is dropped.
func TestFeed(t *testing.T) {
	t.Parallel()
	user := ownID // any other takes root
	open := func(t *testing.T, in *feed, first *os.File) *os.File {
		t.Helper()
		r, err := in.open(first, user)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.close(); r.Close() })
		return r
	}
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		in := newFeed()
		in.add([]byte("before "))
		var first stdin
		if err := first.write([]byte("first ")); err != nil {
			t.Fatal(err)
		}
		sealed, err := first.seal()
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, in, sealed)
		in.add([]byte("after"))
		in.end()
		in.add([]byte("late"))
		if got, err := io.ReadAll(r); string(got) != "first before after" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("nobody reads", func(t *testing.T) {
		t.Parallel()
		in := newFeed()
		r := open(t, in, nil)
		piece := strings.Repeat("x", agentwire.MaxPayload)
		for range 100 { // far more than a pipe holds
			in.add([]byte(piece))
		}
		in.close()
		in.add([]byte(piece))
		if got, err := io.ReadAll(r); len(got) >= 100*len(piece) || err != nil {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
	t.Run("small pieces are put together", func(t *testing.T) {
		t.Parallel()
		in := newFeed()
		for range 3 * agentwire.MaxPayload {
			in.add([]byte("x"))
		}
		if n := len(in.waiting); n != 3 {
			t.Errorf("got %d pieces, want 3", n)
		}
	})
	t.Run("signals are of one test", func(t *testing.T) {
		t.Parallel()
		s := newSession(nil, nil)
		s.signals <- 9
		s.signals <- 2
		s.dropSignals()
		if n := len(s.signals); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}
