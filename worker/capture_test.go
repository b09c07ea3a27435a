package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	const most = job.InlineOutput
	for _, c := range []struct {
		name   string
		in     string
		inline bool
		text   string
	}{
		{"nothing", "", true, ""},
		{"short", "hello\n", true, "hello\n"},
		{"exactly as much as fits", strings.Repeat("a", most), true, strings.Repeat("a", most)},
		{"one more", strings.Repeat("a", most+1), false, strings.Repeat("a", most)},
		{"a character on the cut", strings.Repeat("a", most-1) + "é" + "b", false, strings.Repeat("a", most-1)},
		{"four bytes on the cut", strings.Repeat("a", most-3) + "😀" + "b", false, strings.Repeat("a", most-3)},
		{"a whole character before the cut", strings.Repeat("a", most-2) + "é" + "b", false, strings.Repeat("a", most-2) + "é"},
		{"not UTF-8", "a\xffb", false, "a\uFFFDb"},
		{"half a character", "a\xe2\x82", false, "a\uFFFD"},
		{"zeros", strings.Repeat("\x00", 3*most), false, strings.Repeat("\x00", most)},
		{"zeros within", strings.Repeat("a", most+1) + strings.Repeat("\x00", 3*most) + "b", false, strings.Repeat("a", most)},
	} {
		for _, piece := range []int{1, 1000, 1 << 20} {
			t.Run(c.name, func(t *testing.T) {
				dir := t.TempDir()
				k := capture{dir: dir}
				for rest := []byte(c.in); len(rest) > 0; {
					n := min(piece, len(rest))
					if err := k.write(rest[:n]); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := k.end(false); err != nil {
					t.Fatal(err)
				}
				if k.inline() != c.inline {
					t.Errorf("got inline %v, want %v", k.inline(), c.inline)
				}
				if got := k.text(); got != c.text || !utf8.ValidString(got) {
					t.Errorf("got %d bytes of text, want %d", len(got), len(c.text))
				}
				if got, want := k.attestation(), sha256.Sum256([]byte(c.in)); got.Size != int64(len(c.in)) || got.SHA256 != hex.EncodeToString(want[:]) {
					t.Errorf("attested: got %+v, want %d bytes with hash %x", got, len(c.in), want)
				}
				r, err := k.all()
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, []byte(c.in)) {
					t.Errorf("got %d bytes back (%v), want %d", len(got), err, len(c.in))
				}
				if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
					t.Errorf("files with a name are left: %v %v", left, err)
				}
				if err := k.close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCaptureCut: of a stream that output_kb has cut off, half a character is no part.
func TestCaptureCut(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "a€": "a€", "a\xe2\x82": "a", "€\xf0\x9f\x98": "€", "a\xff": "a\xff", "\xc3": ""} {
		for piece := 1; piece <= 4; piece++ {
			k := capture{dir: t.TempDir()}
			for part := range slices.Chunk([]byte(in), piece) {
				if err := k.write(part); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.end(true); err != nil {
				t.Fatal(err)
			}
			if got, sum := k.attestation(), sha256.Sum256([]byte(want)); string(k.head) != want || got.Size != int64(len(want)) || got.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("%q in pieces of %d: got %q, attested %+v, want %q", in, piece, k.head, got, want)
			}
		}
	}
}

// TestCaptureFullDisk: of a stream that is to be cut where the disk is full, the head is left, wherever that shows.
func TestCaptureFullDisk(t *testing.T) {
	t.Parallel()
	const most = job.InlineOutput
	head := strings.Repeat("€", most/3)
	for _, c := range []struct {
		name    string
		kib     int // of the disk
		written int // bytes, before what the disk has no room for
		last    int
		read    bool // before its end
	}{
		{"for the head", 4, 10, 2 * most, false},
		{"for what follows", most>>10 + 16, most - 1, 2 * most, false},
		{"later", 256, 200 << 10, 200 << 10, false},
		{"at the end", most>>10 + 4, most, spoolBuffer - 10, false},
		{"as it is read", most>>10 + 4, most, spoolBuffer - 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := capture{dir: fullDisk(t, c.kib), cuts: true}
			text := []byte(strings.Repeat("€", (c.written+c.last)/3+1)[:c.written+c.last])
			for _, p := range [][]byte{text[:c.written], text[c.written:]} {
				if err := k.write(p); err != nil {
					t.Fatal(err)
				}
			}
			if c.read {
				if p, err := k.from(0, 1<<20); err != nil || string(p) != head {
					t.Fatalf("got %d bytes, %v, want the %d of the head", len(p), err, len(head))
				}
			}
			if err := errors.Join(k.end(false), k.write([]byte("more"))); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(head))
			if got := k.attestation(); !k.cut || !k.inline() || k.text() != head || got.Size != int64(len(head)) || got.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("got %d bytes, cut off: %t, inline: %t, attested: %+v; want the %d of the head", len(k.text()), k.cut, k.inline(), got, len(head))
			}
			for offset, want := range map[int]int{0: len(head), len(head): 0, len(text): 0} { // the last has been read before
				if p, err := k.from(int64(offset), 1<<20); err != nil || len(p) != want {
					t.Errorf("from %d: got %d bytes, %v, want %d", offset, len(p), err, want)
				}
			}
			all, err := k.all()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(all); err != nil || string(got) != head {
				t.Errorf("got %d bytes back, %v, want %d", len(got), err, len(head))
			}
			if err := k.close(); err != nil {
				t.Error(err)
			}
		})
	}
	k := capture{dir: fullDisk(t, 4)}
	if err := k.write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := k.write(bytes.Repeat([]byte("x"), 2*most)); !noRoom(err) {
		t.Errorf("one that is not to be cut: got %v", err)
	}
}

// TestCaptureWithoutSpool: a reader finds what was kept, and no more, if the rest could not be.
func TestCaptureWithoutSpool(t *testing.T) {
	t.Parallel()
	c := &capture{dir: filepath.Join(t.TempDir(), "missing")}
	if err := c.write([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.write(make([]byte, job.InlineOutput)); err == nil {
			t.Fatal("got no error")
		}
		if p, err := c.from(0, 100); err != nil || string(p) != "kept" {
			t.Errorf("got %q, %v", p, err)
		}
		if p, err := c.from(4, 100); err != nil || len(p) != 0 {
			t.Errorf("got %q, %v, want nothing more", p, err)
		}
	}
}
