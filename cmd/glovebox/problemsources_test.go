package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
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

// TestSourcesMemory: of a submission that was read its sources are held, and nothing of what else lay beside them. Nothing runs beside it.
func TestSourcesMemory(t *testing.T) { //nolint:paralleltest // it counts what the process holds
	const each, submissions = 8 << 20, 12
	dir := t.TempDir()
	var paths []string
	for i := range submissions {
		path := filepath.Join(dir, fmt.Sprintf("%d.pdf", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, each); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	last := filepath.Join(dir, "last.py") // is being read once somebody can write to it
	if err := syscall.Mkfifo(last, 0o600); err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	a := &app{stderr: t.Output()}
	done := make(chan error, 1)
	go func() { done <- a.writeSources(filepath.Join(dir, "compared"), "", append(paths, last)) }()
	f, err := os.OpenFile(last, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if now := held(); now > before+submissions*each/4 {
		t.Errorf("%d MiB are held once %d submissions of %d MiB have been read", (now-before)>>20, submissions, each>>20)
	}
	if _, err := f.WriteString("print(1)\n"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
