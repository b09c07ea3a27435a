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
	sources := map[string]string{
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
	}
	// One Python says what python3 -m py_compile does of all of them, each in a child: it starts slowly.
	const compile = `import os, py_compile, sys
for dir in os.listdir():
    if os.fork() == 0:
        os.chdir(dir)
        said = os.open("said", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = ["py_compile", "a prog.py"]
        sys.exit(py_compile.main())
    os.wait()`
	root := t.TempDir()
	for name, source := range sources {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name, "a prog.py"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := exec.CommandContext(t.Context(), "python3", "-c", compile)
	all.Dir = root
	if out, err := all.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(root, name)
			said, err := os.ReadFile(filepath.Join(dir, "said"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(checkPython, "{file}", "'a prog.py'"))
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput() // what it says is what decides
			got, want := strings.TrimSuffix(string(out), "\n"), strings.TrimSuffix(string(said), "\n")
			if got != want || (got == "") != (name == "right") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
