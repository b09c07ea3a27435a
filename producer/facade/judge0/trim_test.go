package judge0

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

// trimmed is what Judge0 compares, as it is defined.
func trimmed(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		lines[i] = bytes.TrimRight(line, " \t\v\f\r\x00")
	}
	return bytes.TrimRight(bytes.Join(lines, []byte("\n")), "\n")
}

func TestTrimmedSum(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" \t", maxFew)
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a\n", "a", true},
		{"a \t\r\nb\n\n\n", "a\nb", true},
		{"", "", true},
		{"", "\n", true},
		{"a", "b", false},
		{" a", "a", false},
		{"a\n\nb", "a\nb", false},
		{"a" + long, "a", true},
		{"a" + long + "\nb", "a\nb", true},
		{"a" + long + "b", "a" + long + "b", true},
		{"a" + long + "b", "a" + long + " b", false},
		{"a b", "a\x00\x01 b", false}, // as the one is hashed
		{"a\x00b", "a b", false},
	} {
		if got := bytes.Equal(trimmedSum([]byte(tt.a)), trimmedSum([]byte(tt.b))); got != tt.want {
			t.Errorf("%q, %q: got %t", tt.a, tt.b, got)
		}
	}
}

//nolint:paralleltest // allocations are counted
func TestTrimmedSumHoldsNothing(t *testing.T) {
	text := []byte(strings.Repeat("\n", 1<<20) + strings.Repeat(" \t", 1<<20) + "a")
	if n := testing.AllocsPerRun(10, func() { _ = trimmedSum(text) }); n > 20 {
		t.Errorf("a million lines and two million blanks take %.0f allocations", n)
	}
}

// FuzzTrimmedSum: sums are equal where texts are that are trimmed as Judge0 does it, however they are read.
func FuzzTrimmedSum(f *testing.F) {
	f.Add([]byte("a \n\n b\t\n"), []byte("a\n\n b"))
	f.Add([]byte("a\x00 b"), []byte("a\x00\x02 b"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		want := bytes.Equal(trimmed(a), trimmed(b))
		sum, err := readTrimmedSum(iotest.OneByteReader(bytes.NewReader(b)))
		if err != nil || bytes.Equal(trimmedSum(a), sum) != want {
			t.Errorf("%q, %q: got %t, %v", a, b, !want, err)
		}
		if !bytes.Equal(trimmedSum(b), sum) {
			t.Errorf("%q: another sum when read byte by byte", b)
		}
	})
}
