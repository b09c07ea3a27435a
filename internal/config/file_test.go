package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	got, err := ParseFile([]byte("# made by dev\n\nGLOVEBOX_URL=http://127.0.0.1:1\r\nA= $(id) \"x\" =\nB='b c'\nC=''\nD='\nE='a'b'\n"))
	want := File{"GLOVEBOX_URL": "http://127.0.0.1:1", "A": ` $(id) "x" =`, "B": "b c", "C": "", "D": "'", "E": "'a'b'"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v, %v: %s", got, err, diff)
	}
	for _, bad := range []string{"export A=b", "a=b", "A", "=b", "A=1\nA=2", "A=\x00", "A=\xff", "1A=b", " A=b"} {
		if got, err := ParseFile([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
	if _, err := ParseFile(make([]byte, maxFileBytes+1)); err == nil {
		t.Error("a file beyond the limit: got no error")
	}
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "env")
	for _, mode := range []os.FileMode{0o644, 0o620, 0o602, 0o640} {
		if err := os.WriteFile(path, []byte("A=b"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: got %v, want an error that names the chmod", mode, err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir} {
		if _, err := ReadFile(path); err == nil {
			t.Errorf("%s: got no error, want it refused", path)
		}
	}
}

func TestFileWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	want := File{"B": "x=y z", "A": ""}
	for range 2 {
		if err := want.Write(path, "one\ntwo"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadFile(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v, %v: %s", got, err, diff)
	}
	if b, _ := os.ReadFile(path); !strings.HasPrefix(string(b), "# one\n# two\nA=\nB=") {
		t.Errorf("got %q", b)
	}
	for _, bad := range []File{{"A": "b\nC=d"}, {"a": "b"}, {"A": "'b'"}} {
		if err := bad.Write(path, ""); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("got %v, want nothing but the file", entries)
	}
}

// TestFileInShell: a shell that is told to read the file has the values that ReadFile has.
func TestFileInShell(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	want := File{
		"GLOVEBOX_WEBHOOK_SECRET": "whsec_A+b/c= whsec_D==", "GLOVEBOX_URL": "http://[::1]:8437", "A": "", "B": " b  ", "C": `$HOME "x" \n`,
		"D": "`id`;id|id&id>f<f#*?{a,b}!", "E": "~", "F": "é", "G": "#", "H": "=x",
	}
	if err := want.Write(path, "one"); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path); err != nil || !cmp.Equal(want, got) {
		t.Errorf("ReadFile: got %v, %v", got, err)
	}
	bash := exec.CommandContext(t.Context(), "bash", "-c", `set -a; . "$1"; exec env -0`, "bash", path)
	bash.Dir = t.TempDir() // for what a value might make
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := File{}
	for variable := range strings.SplitSeq(string(out), "\x00") {
		if name, value, _ := strings.Cut(variable, "="); name != "" {
			if _, ours := want[name]; ours {
				got[name] = value
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bash: %s", diff)
	}
	for _, line := range []string{"GLOVEBOX_URL='http://[::1]:8437'\n", "\nA=\n", "\nH==x\n"} {
		if b, _ := os.ReadFile(path); !strings.Contains(string(b), line) {
			t.Errorf("want %q in\n%s", line, b)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("# c\nA=b\n")
	f.Add("A='b'\nB=''c''\nC='\nD=''")
	f.Add("A==\r\n\n_1=é")
	f.Fuzz(func(t *testing.T, s string) {
		file, err := ParseFile([]byte(s))
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "env")
		if err := file.Write(path, ""); err != nil {
			t.Fatalf("what was parsed can't be written: %v", err)
		}
		again, err := ReadFile(path)
		if diff := cmp.Diff(file, again); err != nil || diff != "" {
			t.Fatalf("round trip: %v %s", err, diff)
		}
	})
}
