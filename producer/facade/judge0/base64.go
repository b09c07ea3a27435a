package judge0

import (
	"encoding/base64"
	"strings"
)

// lineBytes is how many bytes a line of Ruby's encode64 stands for: 60 characters.
const lineBytes = 45

// encode64 writes base64 as Ruby's Base64.encode64 does: a line break after each 60 characters, and at the end.
func encode64(b []byte) string {
	var s strings.Builder
	s.Grow(base64.StdEncoding.EncodedLen(len(b)) + len(b)/lineBytes + 1)
	for len(b) > 0 {
		line := b[:min(lineBytes, len(b))]
		b = b[len(line):]
		s.WriteString(base64.StdEncoding.EncodeToString(line))
		s.WriteByte('\n')
	}
	return s.String()
}

// decode64 reads base64 as Ruby's Base64.decode64 does, which never fails: it skips what is no character of
// base64, ends at padding, and leaves off bits that make no byte.
func decode64(s string) []byte {
	out := make([]byte, 0, len(s)/4*3+2)
	var bits uint32
	var n uint
	for i := range len(s) {
		value, ok := sextet(s[i])
		if s[i] == '=' && n%4 >= 2 {
			break
		}
		if !ok {
			continue
		}
		bits = bits<<6 | value
		if n++; n%4 == 0 {
			out = append(out, byte(bits>>16), byte(bits>>8), byte(bits))
			bits = 0
		}
	}
	switch n % 4 {
	case 2:
		out = append(out, byte(bits>>4))
	case 3:
		out = append(out, byte(bits>>10), byte(bits>>2))
	}
	return out
}

func sextet(c byte) (value uint32, ok bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return uint32(c - 'A'), true
	case c >= 'a' && c <= 'z':
		return uint32(c-'a') + 26, true
	case c >= '0' && c <= '9':
		return uint32(c-'0') + 52, true
	case c == '+':
		return 62, true
	case c == '/':
		return 63, true
	}
	return 0, false
}
