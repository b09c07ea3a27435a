package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// bucket is an object that comes as what is sent to it, unless it is given up.
type bucket struct {
	ctx  context.Context //nolint:containedctx // as the body of an HTTP answer has it
	sent chan byte
}

func (b bucket) Read(to []byte) (int, error) {
	select {
	case c, more := <-b.sent:
		if !more {
			return 0, io.EOF
		}
		to[0] = c
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b bucket) Close() error { return nil }

// TestSlowStream: a stream may be read as slowly as its reader likes, and a bucket that hangs is given up.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan byte, 3)
		for range 3 {
			sent <- 'x'
		}
		f, err := timed(t.Context(), func(ctx context.Context) (io.ReadCloser, error) { return bucket{ctx, sent}, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		for range 3 {
			time.Sleep(2 * streamTime)
			if _, err := f.Read(b); err != nil {
				t.Fatalf("after a pause of the reader: %v", err)
			}
		}
		began := time.Now()
		if _, err := f.Read(b); err == nil || time.Since(began) != streamTime {
			t.Errorf("of a bucket that hangs: got %v after %s, want an error after %s", err, time.Since(began), streamTime)
		}
	})
}

// TestEscapes: it is no less than what JSON makes of it.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{nil, []byte("plain"), bytes.Repeat([]byte{1}, 100), []byte("\"\\\n\t\r"), []byte("h\u00e9llo")} {
		text, err := json.Marshal(string(b))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(b) + int(escapes(b)); got != len(text)-2 {
			t.Errorf("%q: got %d, want %d", b, got, len(text)-2)
		}
	}
	if got := escapes(bytes.Repeat([]byte{0xff}, 10)); got < 4*10 { // `\\xff`
		t.Errorf("bytes: got %d more", got)
	}
}
