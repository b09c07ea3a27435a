package jobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestCheckPython: the check of Python's syntax says word for word what Jobe's does.
func TestCheckPython(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	for name, source := range map[string]string{
		"right":             "print(42)\n",
		"unfinished":        "print(",
		"indentation":       "def f():\nreturn 1\n",
		"tabs":              "if x:\n        a\n\tb\n",
		"two warnings":      "if x is 1: print('\\d')\n",
		"an encoding":       "# coding: nonesuch\nx\n",
		"no UTF-8":          "print('\xff')\n",
		"a NUL":             "print('\x00')\n",
		"return outside":    "return 1\n",
		"a tall expression": "x = " + strings.Repeat("(", 500) + "1\n",
		"wide characters":   "print('日本語', x y)\n",
		"a byte order mark": "\xef\xbb\xbfprint(1) 2\n",
		"shell":             "'; echo $(id) `id` \"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a prog.py"), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			said := func(command string) string {
				cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(command, "{file}", "'a prog.py'"))
				cmd.Dir = dir
				out, _ := cmd.CombinedOutput() // what it says is what decides
				return strings.TrimSuffix(string(out), "\n")
			}
			want := said("PYTHONPYCACHEPREFIX=$PWD/compiled python3 -m py_compile {file}")
			if got := said(checkPython); got != want || (got == "") != (name == "right") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
