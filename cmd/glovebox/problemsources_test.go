package main

import "testing"

// TestNormalized: what a source becomes, so that tools see the program and not how it was typed or saved.
func TestNormalized(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, want string
		text     bool
	}{
		"line ends":         {"a\r\nb\rc", "a\nb\nc\n", true},
		"blanks at the end": {"a \t\n\tb\f\n", "a\n\tb\n", true},
		"a mark":            {"\uFEFFa\n", "a\n", true},
		"Latin-1":           {"# \xe9t\xe9\n", "# été\n", true},
		"UTF-8":             {"# été\n", "# été\n", true},
		"empty lines stay":  {"\n\na\n\n", "\n\na\n\n", true},
		"no text":           {"a\x00b", "", false},
		"nothing":           {"", "", false},
	} {
		if got, ok := normalized([]byte(c.in)); string(got) != c.want || ok != c.text {
			t.Errorf("%s: got %q, %t, want %q, %t", name, got, ok, c.want, c.text)
		}
	}
}
