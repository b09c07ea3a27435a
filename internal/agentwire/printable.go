package agentwire

import (
	"unicode"
	"unicode/utf8"
)

// Printable returns s as valid UTF-8 of at most about most bytes, with U+FFFD for
// what is not, and for control and format characters, which could make a log line or
// a terminal show something else.
func Printable(s string, most int) string {
	out := make([]byte, 0, min(len(s), most)+utf8.UTFMax)
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			r = utf8.RuneError
		}
		if len(out)+utf8.RuneLen(r) > most {
			return string(append(out, "…"...))
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
