package shell

import (
	"os/exec"
	"testing"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"bin/glovebox": "bin/glovebox", "whsec_A+b/c=": "whsec_A+b/c=", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "~": "'~'",
		"$(id)`id`;id|id&id>f<f#*?[a]{b}!\\\"\n": "'$(id)`id`;id|id&id>f<f#*?[a]{b}!\\\"\n'", "é": "'é'",
	} {
		got := Quote(word)
		if got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
		bash := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+got)
		bash.Dir = t.TempDir() // for what a word might make
		if read, err := bash.Output(); err != nil || string(read) != word {
			t.Errorf("%q: bash reads %q, %v", word, read, err)
		}
	}
}
