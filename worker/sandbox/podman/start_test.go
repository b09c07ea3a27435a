package podman

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testSnapshot has a word in each of its files.
func testSnapshot(t *testing.T) *snapshot {
	t.Helper()
	s := &snapshot{madeOf: "these files", made: time.Now()}
	t.Cleanup(s.close)
	for i, content := range []string{"state", "list", "pages"} {
		var err error
		if s.files[i], err = memoryFile(content); err != nil {
			t.Fatal(err)
		}
		if _, err := s.files[i].WriteString(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.seal(); err != nil {
		t.Fatal(err)
	}
	return s
}

// testResumed is the state of a paused sandbox, which was made of these files.
func testResumed(t *testing.T) *resumed {
	t.Helper()
	f, err := memoryFile("state")
	if err == nil {
		_, err = f.WriteString("state")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &resumed{madeOf: "these files", memory: f}
}

// TestSayHow: an OCI runtime is told how to start a sandbox, once, and a snapshot goes to no sandbox of
// other files.
func TestSayHow(t *testing.T) {
	t.Parallel()
	d, _ := newTestPipeServer(t)
	id := strings.Repeat("a", 64)
	ended := testSnapshot(t)
	ended.close()
	tests := []struct {
		name   string
		start  *specialStart // nil: nobody expects the container to be started in another than the usual way
		madeOf string
		word   int // -1: no answer
		err    error
	}{
		{name: "as usual", madeOf: "any", word: 0},
		{name: "from a snapshot", start: startMode{from: testSnapshot(t)}.special(), madeOf: "these files", word: startFromSnapshot},
		{name: "made of other files", start: startMode{from: testSnapshot(t)}.special(), madeOf: "those files", word: -1, err: errOtherFiles},
		{name: "to be paused", start: startMode{control: true}.special(), madeOf: "these files", word: startForControl, err: io.EOF},
		{name: "from a paused one", start: startMode{resumes: testResumed(t)}.special(), madeOf: "these files", word: startFromSnapshot},
		{name: "from a paused one that was made of other files", start: startMode{resumes: testResumed(t), control: true}.special(), madeOf: "those files", word: -1, err: errOtherFiles},
		{name: "from one that was dropped", start: startMode{from: ended}.special(), madeOf: "these files", word: -1, err: errDropped},
	}
	for _, tt := range tests {
		if tt.start != nil {
			d.expect(id, tt.start)
		}
		c := dial(t, d)
		ask(t, c, askStart, id, tt.madeOf)
		word, files := answer(t, c)
		wants := 0
		if tt.word == startFromSnapshot && tt.start.resumes != nil {
			wants = 1
		} else if tt.word == startFromSnapshot {
			wants = 3
		}
		if word != tt.word || len(files) != wants {
			t.Errorf("%s: got %d and %d files, want %d and %d", tt.name, word, len(files), tt.word, wants)
		}
		c.Close()
		for i, want := range []string{"state", "list", "pages"}[:len(files)] {
			if got, err := io.ReadAll(files[i]); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, want)
			}
			files[i].Close()
		}
		if tt.start != nil {
			if said := <-tt.start.done; said.madeOf != tt.madeOf || !errors.Is(said.err, tt.err) {
				t.Errorf("%s: got %+v, want %v", tt.name, said, tt.err)
			}
		}
		again := dial(t, d)
		ask(t, again, askStart, id, tt.madeOf)
		if word, _ := answer(t, again); word != 0 {
			t.Errorf("%s: asked once more it answers %d", tt.name, word)
		}
	}
	forget := d.expect(id, startMode{from: testSnapshot(t)}.special())
	d.expect(id, startMode{from: testSnapshot(t)}.special()) // a container's next sandbox
	forget()
	c := dial(t, d)
	ask(t, c, askStart, id, "these files")
	if word, _ := answer(t, c); word != startFromSnapshot {
		t.Errorf("the end of the first has taken the second: got %d", word)
	}
}

// TestAwaitControl: a sandbox that becomes a snapshot has its control socket handed over, or the
// worker is told that none came.
func TestAwaitControl(t *testing.T) {
	t.Parallel()
	d, _ := newTestPipeServer(t)
	id := strings.Repeat("a", 64)
	for name, hand := range map[string]func(c *net.UnixConn, control *os.File){
		"handed over": func(c *net.UnixConn, control *os.File) {
			if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(control.Fd())), nil); err != nil {
				t.Error(err)
			}
		},
		"a word": func(c *net.UnixConn, _ *os.File) { _, _ = c.Write([]byte{0}) },
		"two": func(c *net.UnixConn, control *os.File) {
			_, _, _ = c.WriteMsgUnix([]byte{0}, unix.UnixRights(int(control.Fd()), int(control.Fd())), nil)
		},
		"gone": func(c *net.UnixConn, _ *os.File) { c.Close() },
	} {
		start := startMode{becomes: true}.special()
		d.expect(id, start)
		c := dial(t, d)
		ask(t, c, askStart, id, "these files")
		if word, _ := answer(t, c); word != startForControl {
			t.Fatalf("%s: got %d", name, word)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		hand(c, w)
		w.Close()
		said := <-start.done
		if (said.err == nil) != (name == "handed over") || (said.control != nil) != (said.err == nil) {
			t.Errorf("%s: got %+v", name, said)
		}
		if said.control != nil {
			said.control.Close()
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: a descriptor is left open: %v", name, err)
		}
		r.Close()
	}
}

// TestOddQuestions: what is no question gets no answer, and holds nobody up.
func TestOddQuestions(t *testing.T) {
	t.Parallel()
	d, _ := newTestPipeServer(t)
	id := strings.Repeat("a", 64)
	for name, words := range map[string]string{
		"unknown": "x" + id + "\x00\x00", "too much": "s" + id + "\xff\xff" + strings.Repeat("x", 2*maxDetail), "half a detail": "s" + id + "\x00\x10abc", "half an id": "s" + id[:30],
	} {
		c := dial(t, d)
		if _, err := c.Write([]byte(words)); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if word, files := answer(t, c); word != -1 || len(files) > 0 {
			t.Errorf("%s: got %d and %d files", name, word, len(files))
		}
	}
}
