package judge0

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
)

// Outputs are compared as Judge0 does: without blanks at the ends of lines, nor empty lines at the end. What is
// compared are sums of what is left, so that neither text is ever held whole, however long it is.

// trimmedSum is the sum of a text. Two texts have the same one where they are equal once they are trimmed.
func trimmedSum(text []byte) []byte {
	sum, err := readTrimmedSum(bytes.NewReader(text))
	if err != nil {
		panic(err) // a text that is there can be read
	}
	return sum
}

// readTrimmedSum is trimmedSum of what r has.
func readTrimmedSum(r io.Reader) ([]byte, error) {
	t := trimmer{sum: sha256.New()}
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		t.write(b[:n])
		switch {
		case errors.Is(err, io.EOF):
			return t.sum.Sum(nil), nil
		case err != nil:
			return nil, err
		}
	}
}

// isBlank reports whether Ruby's rstrip takes c off the end of a line.
func isBlank(c byte) bool {
	switch c {
	case ' ', '\t', '\v', '\f', '\r', 0:
		return true
	}
	return false
}

// trimmer hashes what is left of a text. Newlines and blanks are kept back until something follows that is
// neither: newlines as their number, blanks as they are, or, where there are many, as their own sum. Where they count
// they are written behind a zero byte, which is a blank, so that no other text is written the same.
type trimmer struct {
	sum      hash.Hash
	newlines int64
	few      []byte    // blanks of the line so far, up to maxFew, or
	many     hash.Hash // the sum of
	count    int64     // so many
}

const maxFew = 32

func (t *trimmer) write(b []byte) {
	for len(b) > 0 {
		switch c := b[0]; {
		case c == '\n':
			t.newlines++
			t.few, t.many = t.few[:0], nil
			b = b[1:]
		case isBlank(c):
			n := run(b, isBlank)
			t.blanks(b[:n])
			b = b[n:]
		default:
			n := run(b, func(c byte) bool { return c != '\n' && !isBlank(c) })
			t.keptBack()
			t.sum.Write(b[:n])
			b = b[n:]
		}
	}
}

// run is how many bytes b begins with that are such.
func run(b []byte, such func(byte) bool) int {
	for i, c := range b {
		if !such(c) {
			return i
		}
	}
	return len(b)
}

func (t *trimmer) blanks(b []byte) {
	if t.many == nil && len(t.few)+len(b) <= maxFew {
		t.few = append(t.few, b...)
		return
	}
	if t.many == nil {
		t.many, t.count = sha256.New(), int64(len(t.few))
		t.many.Write(t.few)
		t.few = t.few[:0]
	}
	t.many.Write(b)
	t.count += int64(len(b))
}

// keptBack writes what counts after all.
func (t *trimmer) keptBack() {
	if t.newlines > 0 {
		t.sum.Write(binary.BigEndian.AppendUint64([]byte{0, '\n'}, uint64(t.newlines))) //nolint:gosec // it is no less than 0
		t.newlines = 0
	}
	switch {
	case t.many != nil:
		t.sum.Write(t.many.Sum(binary.BigEndian.AppendUint64([]byte{0, maxFew + 1}, uint64(t.count)))) //nolint:gosec // it is no less than 0
		t.many = nil
	case len(t.few) > 0:
		t.sum.Write(append([]byte{0, byte(len(t.few))}, t.few...)) //nolint:gosec // it is maxFew at most
		t.few = t.few[:0]
	}
}
