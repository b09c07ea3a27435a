package agentwire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range []Frame{{TypeArtifactEnd, nil}, {TypeStdout, []byte("out")}, {TypeStdout, bytes.Repeat([]byte("x"), MaxPayload)}} {
		if err := w.Write(f.Type, f.Payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteChunks(TypeStderr, make([]byte, MaxPayload+1)); err != nil {
		t.Fatal(err)
	}
	r := FromAgentReader(&b)
	for i, want := range []struct {
		t Type
		n int
	}{{TypeArtifactEnd, 0}, {TypeStdout, 3}, {TypeStdout, MaxPayload}, {TypeStderr, MaxPayload}, {TypeStderr, 1}} {
		f, err := r.Next()
		if err != nil || f.Type != want.t || len(f.Payload) != want.n {
			t.Errorf("frame %d: got %s of %d bytes, %v, want %s of %d", i, f.Type, len(f.Payload), err, want.t, want.n)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF between frames", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	w := NewWriter(io.Discard)
	for _, f := range []Frame{
		{TypeStdout, nil}, {TypeStdout, make([]byte, MaxPayload+1)}, {TypeGo, []byte("x")}, {TypeEnd, make([]byte, 4097)}, {200, nil},
	} {
		if err := w.Write(f.Type, f.Payload); err == nil {
			t.Errorf("%s of %d bytes is written", f.Type, len(f.Payload))
		}
	}
	if err := w.WriteStart(Start{Command: []string{strings.Repeat("x", MaxStart)}}); err == nil {
		t.Error("a start that is too long is written")
	}
	for _, n := range []int64{-1, 0, maxGrant + 1} {
		if err := w.WriteCredit(n); err == nil {
			t.Errorf("a credit of %d is written", n)
		}
	}
}

// TestStartOfAnyText: what a job may have as command, args and env fits into a Start, whatever JSON makes
// of it.
func TestStartOfAnyText(t *testing.T) {
	t.Parallel()
	for _, char := range []string{"<", "\x01", "\u2028", "\""} {
		var out bytes.Buffer
		word := strings.Repeat(char, job.MaxStringBytes/len(char))
		s := Start{Command: slices.Repeat([]string{word}, job.MaxWordsBytes/job.MaxStringBytes)}
		if err := NewWriter(&out).WriteStart(s); err != nil || out.Len() > 7<<20 || char == "<" && out.Len() > job.MaxWordsBytes+2000 {
			t.Errorf("%q: got %d bytes, %v", char, out.Len(), err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	frame := func(t Type, n uint32, payload string) string {
		return string([]byte{byte(t), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + payload
	}
	for name, stream := range map[string]string{
		"unknown type":          frame(99, 0, ""),
		"type zero":             frame(0, 0, ""),
		"the other side's type": frame(TypeGo, 0, ""),
		"too long":              frame(TypeStdout, MaxPayload+1, ""),
		"far too long":          frame(TypeStdout, 1<<32-1, ""),
		"empty output":          frame(TypeStdout, 0, ""),
		"payload where none is": frame(TypeArtifactEnd, 1, "x"),
		"ends in the header":    frame(TypeArtifactEnd, 0, "")[:3],
		"ends before payload":   frame(TypeStdout, 5, ""),
		"ends in payload":       frame(TypeStdout, 5, "abc"),
	} {
		if _, err := FromAgentReader(strings.NewReader(stream)).Next(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v, want ErrProtocol", name, err)
		}
	}
	if _, err := FromHostReader(strings.NewReader(frame(TypeStdout, 1, "x"))).Next(); !errors.Is(err, ErrProtocol) {
		t.Errorf("an agent's frame from the host: got %v, want ErrProtocol", err)
	}
}

func TestWriterIsShared(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				if err := w.Write(TypeStdout, bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := FromAgentReader(&b)
	for range 400 {
		f, err := r.Next()
		if err != nil || !bytes.Equal(f.Payload, bytes.Repeat(f.Payload[:1], 100)) {
			t.Fatalf("got %v, %v", f, err)
		}
	}
}

// TestWriterHolds: what is held is written in one call, in its order, and not held for ever.
func TestWriterHolds(t *testing.T) {
	t.Parallel()
	var calls calls
	w := NewWriter(&calls)
	fill := func(p [][]byte) error { clear(p[0]); return nil }
	w.Hold()
	for _, err := range []error{w.Write(TypeExit, []byte("{}")), w.WriteJSON(TypeTurned, Turned{})} {
		if err != nil || len(calls) != 0 {
			t.Fatalf("got %v, %d calls, want none", err, len(calls))
		}
	}
	if err := w.Release(); err != nil || len(calls) != 1 {
		t.Fatalf("got %v, %d calls, want one", err, len(calls))
	}
	if err := errors.Join(w.Release(), w.Write(TypeArtifactEnd, nil)); err != nil || len(calls) != 2 {
		t.Fatalf("after it: got %v, %d calls, want one more", err, len(calls))
	}
	w.Hold()
	full := errors.New("full")
	if err := w.Write(TypeExit, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteFrom(TypeArtifactData, 1, func([][]byte) error { return full }); !errors.Is(err, full) {
		t.Fatalf("got %v, want what the reader said", err)
	}
	if err := w.WriteFrom(TypeArtifactData, 1, fill); err != nil || len(calls) != 3 {
		t.Fatalf("data: got %v, %d calls, want one more, with what was held", err, len(calls))
	}
	if err := w.Write(TypeStdout, make([]byte, MaxPayload)); err != nil || len(calls) != 4 {
		t.Fatalf("much: got %v, %d calls, want one more", err, len(calls))
	}
	if err := errors.Join(w.Write(TypeExit, []byte("{}")), w.Write(TypeFault, []byte("{}"))); err != nil || len(calls) != 5 {
		t.Fatalf("a fault: got %v, %d calls, want one more, with what was held", err, len(calls))
	}
	r := FromAgentReader(bytes.NewReader(slices.Concat(calls...)))
	for _, want := range []Type{TypeExit, TypeTurned, TypeArtifactEnd, TypeExit, TypeArtifactData, TypeStdout, TypeExit, TypeFault} {
		if f, err := r.Next(); err != nil || f.Type != want {
			t.Errorf("got %s, %v, want %s", f.Type, err, want)
		}
	}
}

// calls keeps what is written, call by call.
type calls [][]byte

func (c *calls) Write(p []byte) (int, error) {
	*c = append(*c, bytes.Clone(p))
	return len(p), nil
}

func TestCredit(t *testing.T) {
	t.Parallel()
	c := NewCredit()
	if err := c.Grant(100 + FrameCost); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Take(30); n != 30 || err != nil {
		t.Errorf("got %d, %v, want 30", n, err)
	}
	took := make(chan int)
	go func() {
		n, err := c.Take(1000) // 70 are left, of which FrameCost are the frame's
		if err != nil {
			t.Error(err)
		}
		took <- n
	}()
	if n := <-took; n != 6 {
		t.Errorf("got %d, want 6", n)
	}
	go func() {
		n, err := c.Take(1000)
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %d, %v, want ErrClosed", n, err)
		}
		took <- n
	}()
	select {
	case n := <-took:
		t.Fatalf("took %d without credit", n)
	case <-time.After(20 * time.Millisecond):
	}
	c.Close()
	<-took
	for _, n := range []int64{0, -1, maxGrant + 1} {
		if err := c.Grant(n); !errors.Is(err, ErrProtocol) {
			t.Errorf("a grant of %d: got %v, want ErrProtocol", n, err)
		}
	}
}

// TestWriteFrom: however credit cuts a file, what is taken is what its frames cost.
func TestWriteFrom(t *testing.T) {
	t.Parallel()
	var file, stream bytes.Buffer
	for i := range 3*MaxPayload + 7 {
		file.WriteByte(byte(i * i >> 3))
	}
	want := bytes.Clone(file.Bytes())
	c, w := NewCredit(), NewWriter(&stream)
	granted := int64(0)
	for _, grant := range []int64{FrameCost + 1, 2 * FrameCost, MaxPayload, MaxPayload + FrameCost, MaxPayload + 3, 5 * MaxPayload} {
		if granted += grant; c.Grant(grant) != nil {
			t.Fatal(grant)
		}
		for file.Len() > 0 && !c.None() {
			n, err := c.Take(file.Len())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteFrom(TypeArtifactData, n, func(payloads [][]byte) error {
				for _, p := range payloads {
					if _, err := io.ReadFull(&file, p); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, err := c.Take(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	spent := cost(int64(left))
	for r := FromAgentReader(&stream); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Payload...)
		spent += f.Cost()
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, not the %d that were sent", len(got), len(want))
	}
	if unused := granted - spent; unused < 0 || unused > FrameCost {
		t.Errorf("of %d granted, %d were spent", granted, spent)
	}
	broken := errors.New("broken")
	if err := w.WriteFrom(TypeArtifactData, 1, func([][]byte) error { return broken }); !errors.Is(err, broken) || stream.Len() > 0 {
		t.Errorf("a read that fails: got %v, and %d bytes sent", err, stream.Len())
	}
	for _, bad := range []struct {
		t Type
		n int
	}{{TypeArtifactData, 0}, {TypeArtifactEnd, 1}, {TypeExit, 5000}} {
		if err := w.WriteFrom(bad.t, bad.n, func([][]byte) error { return nil }); err == nil {
			t.Errorf("%d bytes of %s: got nil, want an error", bad.n, bad.t)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	got := []string{
		Printable("plain ü", 100), Printable("a\nb\x1b[2J\u202e", 100), Printable("\xff\xfe", 100),
		Printable("abcdef", 3), Printable("äöü", 3), Printable("", 3),
	}
	want := []string{"plain ü", "a\uFFFDb\uFFFD[2J\uFFFD", "\uFFFD\uFFFD", "abc…", "ä…", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
