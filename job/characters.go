package job

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

func checkWords(add addFunc, field string, words []string, most int) {
	if len(words) > most {
		add(field, len(words), "has too many entries", fmt.Sprintf("0 to %d", most))
	}
	for i, w := range words[:min(len(words), most)] {
		if problem := checkString(w, MaxStringBytes); problem != "" {
			add(fmt.Sprintf("%s[%d]", field, i), clip(w), problem, fmt.Sprintf("up to %d bytes without NUL", MaxStringBytes))
		}
	}
}

func checkString(s string, most int) string {
	switch {
	case len(s) > most:
		return "is too long"
	case strings.ContainsRune(s, 0):
		return "has a NUL"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// clip shortens a value for an error message; what a stranger sent is never echoed whole.
func clip(s string) string { return Clip(s, 64) }

// Clip returns s, or its beginning of at most so many bytes, cut between characters, and an ellipsis.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// WholeCharacters returns b without a character of UTF-8 that is cut off at its end.
func WholeCharacters(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
