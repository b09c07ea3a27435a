package judge0

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

func TestBase64(t *testing.T) {
	t.Parallel()
	if got, want := encode64([]byte(strings.Repeat("a", 46))), strings.Repeat("YWFh", 15)+"\nYQ==\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := encode64(nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
	for text, want := range map[string]string{
		"": "", "YQ==": "a", "YQ": "a", "Y": "", "YWI=": "ab", "Y W\nI": "ab", "é*YWJj": "abc", "YQ==YQ==": "a", "====YWJj": "abc", "YW=Jj": "a", "-_": "",
	} {
		if got := decode64(text); string(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzBase64: what is written is read again, whatever it is, and nothing that is sent makes more of itself.
func FuzzBase64(f *testing.F) {
	f.Add("YQ==")
	f.Add("=\x00é")
	f.Fuzz(func(t *testing.T, s string) {
		if got := decode64(encode64([]byte(s))); !bytes.Equal(got, []byte(s)) {
			t.Errorf("got %q, want %q", got, s)
		}
		got := decode64(s)
		if len(got) > len(s) {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
		if want, err := base64.StdEncoding.DecodeString(s); err == nil && !bytes.Equal(got, want) {
			t.Errorf("got %q of %q, want %q", got, s, want)
		}
	})
}
