package jobe

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "",
		"héllo\x00\x1b":      "héllo\x00\x1b",
		"a\xff\x00~\x7f\t\n": "a\\xff\\x00~\\x7f\t\n",
		"é\xe9\r":            "\\xc3\\xa9\\xe9\r",
	} {
		if got := escape([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func BenchmarkEscape(b *testing.B) {
	binary := bytes.Repeat([]byte{0xff}, 1<<20)
	b.SetBytes(int64(len(binary)))
	b.ReportAllocs()
	for b.Loop() {
		_ = escape(binary)
	}
}

// TestEscapeMemory: what is escaped is there once.
func TestEscapeMemory(t *testing.T) {
	binary := bytes.Repeat([]byte{0xff}, 1<<20)
	if n := testing.AllocsPerRun(3, func() { _ = escape(binary) }); n > 1 {
		t.Errorf("it took %.0f allocations, want one", n)
	}
}

// FuzzEscape: whatever a program printed is text that JSON has as it is.
func FuzzEscape(f *testing.F) {
	f.Add([]byte("h\xe9llo\x00\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := escape(b)
		if !utf8.ValidString(got) || len(got) > 4*len(b) || utf8.Valid(b) && got != string(b) {
			t.Fatalf("%q: got %q", b, got)
		}
	})
}
