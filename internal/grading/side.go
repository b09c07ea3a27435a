package grading

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// bufferBytes is what is held of each side.
const bufferBytes = 64 << 10

// side is an answer or an output that is being read, and the place in it.
type side struct {
	r            *bufio.Reader
	line, column int64 // of the next byte, from 1
	err          error // that of the reader, except for its end
}

func newSide(r io.Reader) *side {
	return &side{r: bufio.NewReaderSize(r, bufferBytes), line: 1, column: 1}
}

func (s *side) failed() error { return s.err }

// end is what peek answers after the last byte.
const end = -1

// peek returns the next byte, or end, which it also is for a reader that failed.
func (s *side) peek() int {
	b, err := s.r.Peek(1)
	if err != nil {
		s.note(err)
		return end
	}
	return int(b[0])
}

func (s *side) note(err error) {
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
}

// next takes the byte that peek has shown.
func (s *side) next() {
	b, err := s.r.ReadByte()
	switch {
	case err != nil:
		s.note(err)
	case b == '\n':
		s.line, s.column = s.line+1, 1
	default:
		s.column++
	}
}

// skip takes n bytes that are in the buffer.
func (s *side) skip(n int) {
	b, _ := s.r.Peek(n)
	if last := bytes.LastIndexByte(b, '\n'); last >= 0 {
		s.line, s.column = s.line+int64(bytes.Count(b, []byte{'\n'})), int64(n-last)
	} else {
		s.column += int64(n)
	}
	_, err := s.r.Discard(n)
	s.note(err)
}

// skipBlanks takes the bytes for which blank holds.
func (s *side) skipBlanks(blank func(int) bool) {
	for c := s.peek(); c != end && blank(c); c = s.peek() {
		s.next()
	}
}

// take takes what comes before a stop, up to most bytes, and appends it to b.
func (s *side) take(b []byte, most int, stop func(int) bool) []byte {
	for c := s.peek(); c != end && !stop(c) && most > 0; c = s.peek() {
		b = append(b, byte(c))
		most--
		s.next()
	}
	return b
}

// window returns what is in the buffer, at least a byte unless there is none left. It is valid up to
// the next call of a method.
func (s *side) window() []byte {
	s.peek()
	b, _ := s.r.Peek(s.r.Buffered())
	return b
}

// samePrefix counts the bytes that x and y begin with both.
func samePrefix(x, y []byte) int {
	n := min(len(x), len(y))
	if bytes.Equal(x[:n], y[:n]) {
		return n
	}
	for i := range n {
		if x[i] != y[i] {
			return i
		}
	}
	return n
}

// skipWords skips words that are the same on both sides, up to and with the last white space among
// them: most of an output that is right goes this way, and is never looked at byte by byte.
func skipWords(a, b *side) {
	for {
		x, y := a.window(), b.window()
		n := bytes.LastIndexAny(x[:samePrefix(x, y)], " \n\t\r\f\v") + 1
		if n == 0 {
			return
		}
		a.skip(n)
		b.skip(n)
	}
}

// skipCommon skips all bytes that are the same on both sides, and returns the last few of them that
// are on the line where both are then.
func skipCommon(a, b *side) (tail []byte) {
	for {
		x, y := a.window(), b.window()
		n := samePrefix(x, y)
		if n == 0 {
			return tail
		}
		tail = append(tail, x[max(0, n-excerptBefore):n]...)
		tail = tail[max(0, len(tail)-excerptBefore):]
		tail = tail[bytes.LastIndexByte(tail, '\n')+1:]
		a.skip(n)
		b.skip(n)
	}
}

// isSpace holds for the white space of the default checker.
func isSpace(c int) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// isBlank holds for white space within a line.
func isBlank(c int) bool { return c != '\n' && isSpace(c) }

// Want and Got of a difference: how much there is before the place, and in all, bytes.
const (
	excerptBefore = 32
	excerptBytes  = 128
)

// excerpt cuts text around a place in it, as UTF-8 that is no longer than excerptBytes.
func excerpt(text []byte, at int) string {
	const dots = "…"
	from := max(0, at-excerptBefore)
	s := strings.ToValidUTF8(string(text[from:min(len(text), from+excerptBytes)]), "\uFFFD")
	if from > 0 {
		s = dots + s
	}
	if len(s) <= excerptBytes && from+excerptBytes >= len(text) {
		return s
	}
	cut := min(len(s), excerptBytes-len(dots))
	for cut > 0 && cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}
