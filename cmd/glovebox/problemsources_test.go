package main

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

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

// TestComparableNames: files whose names become the same for tools get others, however many they are.
func TestComparableNames(t *testing.T) {
	t.Parallel()
	var files []job.File
	for r := '一'; r < '一'+20_000; r++ {
		files = append(files, job.File{Name: string(r) + ".py", Content: "1"})
	}
	files = append(files, job.File{Name: "2__.py/a.py", Content: "1"}, job.File{Name: "2_/a.py", Content: "1"}, job.File{Name: "2_", Content: "1"})
	found, _, err := comparableFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range found {
		names[f.name] = true
	}
	if len(names) != len(files) {
		t.Errorf("got %d names of %d files", len(names), len(files))
	}
	for _, want := range []string{"_.py", "2__.py", "20000__.py", "2_2__.py_a.py", "2_/a.py", "2_2_"} {
		if !names[want] {
			t.Errorf("no file is called %s", want)
		}
	}
}
