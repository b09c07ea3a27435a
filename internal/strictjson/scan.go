package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// scanner reads the tokens of JSON that is known to be well-formed, as they stand in the
// text: a json.Decoder would copy each string, were it as large as the body, twice.
type scanner struct {
	text []byte
	at   int
}

// next returns a bracket, a string with its quotes, a number, true, false or null; nothing
// at the end.
func (s *scanner) next() []byte {
	s.skipSpace()
	begin := s.at
	if begin == len(s.text) {
		return nil
	}
	switch s.text[begin] {
	case '{', '}', '[', ']':
		s.at++
	case '"':
		s.skipString()
	default:
		for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\r\n,:]}"), s.text[s.at]) < 0 {
			s.at++
		}
	}
	return s.text[begin:s.at]
}

// more reports whether the array or object that is open has another entry.
func (s *scanner) more() bool {
	s.skipSpace()
	return s.at < len(s.text) && s.text[s.at] != ']' && s.text[s.at] != '}'
}

// skipSpace skips what stands between tokens. Commas and colons are where they have to be.
func (s *scanner) skipSpace() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) skipString() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// skip skips a value.
func (s *scanner) skip() { s.skipTo(depth(s.next())) }

// skipTo reads on until so many open objects and arrays are closed.
func (s *scanner) skipTo(open int) {
	for open > 0 {
		open += depth(s.next())
	}
}

// depth is what a token adds to the number of open objects and arrays.
func depth(token []byte) int {
	switch token[0] {
	case '{', '[':
		return 1
	case '}', ']':
		return -1
	}
	return 0
}

// unquoted is the text of a string token.
func unquoted(token []byte) string {
	if bytes.IndexByte(token, '\\') < 0 { // as most are
		return string(token[1 : len(token)-1])
	}
	var s string
	_ = json.Unmarshal(token, &s) // a string of well-formed JSON
	return s
}

// LoneSurrogate returns the first escape in well-formed JSON that is one half of a surrogate pair without the other, or nil.
func LoneSurrogate(text []byte) []byte {
	const size = len(`\ud800`)
	for {
		at := bytes.IndexByte(text, '\\') // there are none outside of strings
		if at < 0 {
			return nil
		}
		if text = text[at:]; text[1] != 'u' {
			text = text[2:]
			continue
		}
		escape := text[:size]
		text = text[size:]
		if !utf16.IsSurrogate(escaped(escape)) {
			continue
		}
		if !bytes.HasPrefix(text, []byte(`\u`)) || utf16.DecodeRune(escaped(escape), escaped(text[:size])) == unicode.ReplacementChar {
			return escape
		}
		text = text[size:]
	}
}

// escaped is what an escape such as \u00e9 stands for.
func escaped(escape []byte) rune {
	n, _ := strconv.ParseUint(string(escape[2:]), 16, 16) // of well-formed JSON
	return rune(n)
}
