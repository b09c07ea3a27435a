package main

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether somebody looks at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// untrusted is w for what a job printed: a terminal gets nothing that moves its cursor,
// renames its window or answers to the shell; a file or a pipe gets every byte.
func untrusted(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	return &shown{w: w}
}

// shown holds back a byte that may begin a control character, until it has the next.
type shown struct {
	w    io.Writer
	held []byte
}

func (s *shown) Write(p []byte) (int, error) {
	whole := append(s.held, p...)
	s.held = nil
	if n := len(whole); n > 0 && whole[n-1] == c1Lead {
		whole, s.held = whole[:n-1], []byte{c1Lead}
	}
	if _, err := s.w.Write(showControls(whole)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// c1Lead is the first byte of a C1 control character in UTF-8.
const c1Lead = 0xc2

// showControls writes control characters as ^X, as cat -v does; the C1 ones in their
// UTF-8 form too.
func showControls(p []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '\n' || c == '\t':
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			b.WriteByte('^')
			b.WriteByte(c ^ 0x40)
		case c == c1Lead && i+1 < len(p) && p[i+1] >= 0x80 && p[i+1] < 0xa0:
			b.WriteString("^[")
			b.WriteByte(p[i+1] - 0x40)
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.Bytes()
}
