package job

import "testing"

// TestWholeCharacters: a cut takes a whole character away, and nothing else.
func TestWholeCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":              "",
		"ab":            "ab",
		"aé":            "aé",
		"a\xc3":         "a",
		"a\xf0\x9f\x9a": "a",
		"a\xe2\x82":     "a",
		"a\x80":         "a\x80", // it is no text
		"\x80\x80\x80":  "\x80\x80\x80",
		"a\xff":         "a\xff",
		"\xc3":          "",
	} {
		if got := string(WholeCharacters([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
