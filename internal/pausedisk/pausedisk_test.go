package pausedisk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(Dir(""), "pausedisk") //nolint:usetesting // what TMPDIR names may be memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(Room(dir, 1), Try(dir)); err != nil {
		t.Errorf("a directory on a disk: got %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("it left %v, %v", names, err)
	}
	if err := Room(dir, 1<<60); err == nil || errors.Is(err, ErrUseless) {
		t.Errorf("too little room: got %v", err)
	}
	for what, err := range map[string]error{"memory": Room("/dev/shm", 1), "nothing": Room(filepath.Join(dir, "none"), 1), "a file in nothing": Try(filepath.Join(dir, "none")), "a file in /proc": Try("/proc")} {
		if !errors.Is(err, ErrUseless) {
			t.Errorf("%s: got %v, want ErrUseless", what, err)
		}
	}
	for at, want := range map[string]bool{dir: false, "/dev/shm": true} {
		if got, err := InMemory(at); got != want || err != nil {
			t.Errorf("%s in memory: got %v, %v, want %v", at, got, err, want)
		}
	}
	if _, err := InMemory(filepath.Join(dir, "none")); err == nil {
		t.Error("nothing is in memory or not")
	}
	if got := [2]string{Dir(""), Dir("/a:/b")}; got != [2]string{"/var/tmp", "/a"} {
		t.Errorf("got %v", got)
	}
}
