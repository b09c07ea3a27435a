package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) {
		must(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		must(os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
	}
	file("b")
	file("a/z")
	file("a/y")
	file("new\nline")
	file("hard")
	must(os.Link(filepath.Join(root, "hard"), filepath.Join(root, "hard2")))
	must(os.Symlink("b", filepath.Join(root, "link")))
	must(os.Symlink("a", filepath.Join(root, "link-dir")))
	must(syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, "socket")})
	must(err)
	defer l.Close()
	must(os.Mkdir(filepath.Join(root, "empty"), 0o755))

	entries, err := walk(root)
	must(err)
	got := map[string]string{}
	order := ""
	for _, e := range entries {
		got[e.name] = e.problem
		order += e.name + " "
	}
	want := map[string]string{
		"a/y": "", "a/z": "", "b": "", "new\nline": "its name has a control or format character",
		"hard": "has more than one hard link", "hard2": "has more than one hard link",
		"link": "is a symbolic link", "link-dir": "is a symbolic link", "fifo": "is a FIFO", "socket": "is a socket",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if want := "a/y a/z b fifo hard hard2 link link-dir new\nline socket "; order != want {
		t.Errorf("got %q, want %q", order, want)
	}
}

func TestWalkIsBounded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range maxEntries + 9 { // names of one file are made ten times as fast as files
		if err := os.Link(filepath.Join(root, "0"), filepath.Join(root, fmt.Sprint(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := walk(root)
	if err != nil || len(entries) != maxEntries+1 || !strings.Contains(entries[maxEntries].problem, "more than 20000 entries") {
		t.Errorf("got %d entries, %v", len(entries), err)
	}
}

func TestWalkRootIsALink(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	if entries, err := walk(link); err == nil {
		t.Errorf("a link is walked: %d entries", len(entries))
	}
}

// TestOpenBeneath: no part of a name is followed when it is a link, and what is opened
// is what was seen.
func TestOpenBeneath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"real", "other"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "f"), []byte(dir), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"dir": "real", "file": "real/f", "abs": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := openBeneath(root, entry{name: "real/f", size: 4})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, e := range []entry{
		{name: "dir/f", size: 4},
		{name: "file", size: 4},
		{name: "abs", size: 4},
		{name: "fifo"},
		{name: "real"},
		{name: "none"},
		{name: "real/f", size: 5},
		{name: "real/f/x"},
	} {
		if f, err := openBeneath(root, e); err == nil {
			f.Close()
			t.Errorf("%+v is opened", e)
		}
	}
}
