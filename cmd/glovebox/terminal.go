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
	return &shown{w}
}

type shown struct{ w io.Writer }

func (s *shown) Write(p []byte) (int, error) {
	if _, err := s.w.Write(showControls(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

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
		case c == 0xc2 && i+1 < len(p) && p[i+1] >= 0x80 && p[i+1] < 0xa0:
			b.WriteString("^[")
			b.WriteByte(p[i+1] - 0x40)
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.Bytes()
}
