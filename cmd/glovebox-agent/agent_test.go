package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

func TestIsGVisor(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"Linux version 4.19.0-gvisor #1 SMP Sun Jan 10 15:06:54 PST 2016": true,
		"Linux version 6.18.0-amd64 (gvisor@host) #1 SMP gvisor":          false,
		"Linux version 6.18.0 #1 4.19.0-gvisor":                           false,
		"":                                                                false, "-gvisor": false,
	} {
		if got := isGVisor(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}

// TestRefusesOutside: on this kernel, or as this process, the agent takes no job.
func TestRefusesOutside(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	defer read.Close()
	s := newSession(strings.NewReader(""), write)
	done := make(chan error, 1)
	go func() { done <- s.run() }()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "refuse to run") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, path, want string }{
		{"tool", "/bin:/usr/bin", "/bin/tool /usr/bin/tool"},
		{"tool", "", "./tool"},
		{"tool", "/bin::", "/bin/tool ./tool ./tool"},
		{"./x", "/bin", "./x"},
		{"/x", "/bin", "/x"},
		{"dir/x", "/bin", "dir/x"},
	} {
		if got := strings.Join(candidates(c.file, c.path), " "); got != c.want {
			t.Errorf("%s in %q: got %s, want %s", c.file, c.path, got, c.want)
		}
	}
}

// TestExecFailed: what a shell says, and its exit codes; anything but an errno is the agent's.
func TestExecFailed(t *testing.T) {
	t.Parallel()
	r := run{argv: []string{"tool"}}
	for err, want := range map[error]execFailure{
		syscall.ENOENT:  {"glovebox: tool: command not found", 127},
		syscall.ENOTDIR: {"glovebox: tool: command not found", 127},
		syscall.EACCES:  {"glovebox: tool: permission denied", 126},
		syscall.ENOEXEC: {"glovebox: tool: exec format error", 126},
		syscall.E2BIG:   {"glovebox: tool: argument list too long", 126},
		syscall.EINVAL:  {"glovebox: tool: invalid argument", 126},
	} {
		if got, fault := r.execFailed(err); fault != nil || *got != want {
			t.Errorf("%v: got %v, %v, want %v", err, got, fault, want)
		}
	}
	if got, fault := r.execFailed(io.EOF); got != nil || fault == nil {
		t.Errorf("got %v, %v, want the agent's own failure", got, fault)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	in := newInputs(root)
	for name, content := range map[string]string{"a": "abc", "dir/deep/b": "", "c": "0123456789"} {
		if err := in.begin(agentwire.FileBegin{Name: name, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		for _, p := range slices.Collect(slices.Chunk([]byte(content), 4)) {
			if err := in.data(p); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != content {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, content)
		}
	}
	for _, name := range []string{"a", "dir/deep/b", "c"} {
		e := entry{name: name}
		if info, err := os.Stat(filepath.Join(root, name)); err == nil {
			e.size = info.Size()
		}
		if got, err := sumOf(root, e); err != nil || got != in.sums[name] {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, in.sums[name])
		}
	}
	if err := in.unsealed.write([]byte("words")); err != nil {
		t.Fatal(err)
	}
	var err error
	if in.stdin, err = in.unsealed.seal(); err != nil {
		t.Fatal(err)
	}
	defer in.stdin.Close()
	if got, err := io.ReadAll(in.stdin); err != nil || string(got) != "words" {
		t.Errorf("stdin: got %q, %v", got, err)
	}
	if _, err := in.stdin.Write([]byte("x")); err == nil {
		t.Error("stdin can be written to")
	}
}

// TestInputsThatCannotBe is the job's problem, and what follows is read all the same.
func TestInputsThatCannotBe(t *testing.T) {
	t.Parallel()
	in := newInputs(t.TempDir())
	for _, b := range []agentwire.FileBegin{{Name: "a", Size: 1}, {Name: "a/b", Size: 3}} {
		if err := in.begin(b); err != nil {
			t.Fatal(err)
		}
		if err := in.data(make([]byte, b.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if in.problem == "" {
		t.Error("a file below a file is no problem")
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		write    int
		truncate bool
		sent     int
		exceeded bool
	}{{99, false, 99, false}, {100, false, 100, false}, {101, false, 100, true}, {200_000, false, 100, true}, {101, true, 100, false}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		sent, exceeded := 0, false
		o := output{most: 100, truncate: tt.truncate, send: func(p []byte) error { sent += len(p); return nil }}
		go func() {
			if _, err := w.Write(make([]byte, tt.write)); err != nil {
				t.Error(err)
			}
			w.Close()
		}()
		if err := o.pump(r, func() { exceeded = true }); err != nil {
			t.Error(err)
		}
		r.Close()
		if sent != tt.sent || exceeded != tt.exceeded {
			t.Errorf("%+v: sent %d, exceeded %v", tt, sent, exceeded)
		}
	}
}

// TestOutputWithoutEnd: a write end that nobody holds and nothing closes keeps no run
// waiting, and what was written is not lost.
func TestOutputWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 60_000} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		sent := 0
		o := output{most: 1 << 20, send: func(p []byte) error { sent += len(p); return nil }}
		if err := noWriters(r); err != nil { // it may come before, while and after the pump reads
			t.Fatal(err)
		}
		if err := o.pump(r, nil); err != nil || sent != size {
			t.Errorf("got %d bytes, %v, want %d", sent, err, size)
		}
		r.Close()
		w.Close()
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode  uint32
		links uint64
		kept  bool
	}{
		{syscall.S_IFREG | 0o644, 1, true},
		{syscall.S_IFREG, 2, false},
		{syscall.S_IFREG, 0, false},
		{syscall.S_IFLNK, 1, false},
		{syscall.S_IFIFO, 1, false},
		{syscall.S_IFSOCK, 1, false},
		{syscall.S_IFCHR, 1, false},
		{syscall.S_IFBLK, 1, false},
		{0, 1, false},
	} {
		if got := kindProblem(tt.mode, tt.links); (got == "") != tt.kept {
			t.Errorf("%o, %d links: got %q, want kept %v", tt.mode, tt.links, got, tt.kept)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	got := environ(map[string]string{"A": "b", "": "x", "C=D": "x", "E": "\x00", "F": "g=h"})
	slices.Sort(got)
	if want := []string{"A=b", "F=g=h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSkipIsBounded(t *testing.T) {
	t.Parallel()
	var sent strings.Builder
	s := newSession(strings.NewReader(""), &sent)
	c := collector{limits: job.DefaultLimits, send: s}
	for range 1000 {
		if err := c.skip(strings.Repeat("\x1b", 5000), "is odd"); err != nil {
			t.Fatal(err)
		}
	}
	r := agentwire.FromAgentReader(strings.NewReader(sent.String()))
	n := 0
	for ; ; n++ {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	if n != job.MaxSkipped || c.skipped != 1000 {
		t.Errorf("got %d frames and %d counted", n, c.skipped)
	}
}

// TestPinMappings: files that can be mapped are mapped by the agent, once.
func TestPinMappings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := pinMappings([]string{dir, filepath.Join(dir, "nothing"), file, os.DevNull})
	if err == nil || strings.Count(err.Error(), "map ") != 3 {
		t.Errorf("got %v, want three that could not be mapped", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(maps), file+"\n"); n != 1 {
		t.Errorf("%s is mapped %d times, want once", file, n)
	}
}

// TestEmpty: whatever a directory holds is removed, and nothing that it leads to.
func TestEmpty(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	for _, err := range []error{
		os.WriteFile(outside, []byte("x"), 0o600),
		os.Mkdir(filepath.Join(root, "empty"), 0),
		os.WriteFile(filepath.Join(root, "file"), []byte("x"), 0),
		os.Symlink(filepath.Dir(outside), filepath.Join(root, "link")),
		os.Link(outside, filepath.Join(root, "hard")),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	deep := root
	for range 500 { // as deep as one path can be
		deep = filepath.Join(deep, "d")
		if err := os.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1500 { // more than are listed at once
		if err := os.WriteFile(filepath.Join(root, "d", strings.Repeat("x", i%200)+string(rune('a'+i%26))+fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "d/d/d"), 0); err != nil {
		t.Fatal(err)
	}
	if err := empty(root); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "x" {
		t.Errorf("what a link led to: %q, %v", b, err)
	}
}

// TestFilterOfTests: all jumps of the longer filter lead to where those of the shorter one do.
func TestFilterOfTests(t *testing.T) {
	t.Parallel()
	for of, want := range map[struct{ noIPC, noInternet bool }]string{
		{}:            "clone3 38, fallocate 95, other 0, setns 1, shmget 0, unshare 1, x86 1, keys 38 38 38, sockets 0 0 0",
		{true, false}: "clone3 38, fallocate 95, other 0, setns 1, shmget 38, unshare 1, x86 1, keys 38 38 38, sockets 0 0 0",
		{true, true}:  "clone3 38, fallocate 95, other 0, setns 1, shmget 38, unshare 1, x86 1, keys 38 38 38, sockets 97 97 0",
		{false, true}: "clone3 38, fallocate 95, other 0, setns 1, shmget 0, unshare 1, x86 1, keys 38 38 38, sockets 97 97 0",
	} {
		f, err := filter(of.noIPC, of.noInternet)
		if err != nil {
			t.Fatal(err)
		}
		program := unsafe.Slice(f.Filter, f.Len)
		answer := func(arch, call, flags uint32) uint32 {
			var a uint32
			for i := 0; ; i++ {
				switch in := program[i]; in.Code {
				case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
					a = map[uint32]uint32{0: call, 4: arch, 16: flags}[in.K]
				case unix.BPF_RET | unix.BPF_K:
					if in.K == unix.SECCOMP_RET_ALLOW {
						return 0
					}
					return in.K &^ unix.SECCOMP_RET_ERRNO
				default:
					if yes := in.Code == unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K && a == in.K || in.Code == unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K && a&in.K != 0; yes {
						i += int(in.Jt)
					} else {
						i += int(in.Jf)
					}
				}
			}
		}
		arch := auditArch[runtime.GOARCH]
		got := fmt.Sprintf(
			"clone3 %d, fallocate %d, other %d, setns %d, shmget %d, unshare %d, x86 %d, keys %d %d %d, sockets %d %d %d", answer(arch, unix.SYS_CLONE3, 0), answer(arch, unix.SYS_FALLOCATE, 0),
			answer(arch, unix.SYS_READ, 0), answer(arch, unix.SYS_SETNS, 0), answer(arch, unix.SYS_SHMGET, 0), answer(arch, unix.SYS_UNSHARE, 0), answer(3, unix.SYS_READ, 0),
			answer(arch, unix.SYS_KEYCTL, 0), answer(arch, unix.SYS_ADD_KEY, 0), answer(arch, unix.SYS_REQUEST_KEY, 0),
			answer(arch, unix.SYS_SOCKET, unix.AF_INET), answer(arch, unix.SYS_SOCKET, unix.AF_INET6), answer(arch, unix.SYS_SOCKET, unix.AF_UNIX),
		)
		if got != want {
			t.Errorf("%+v: got %s, want %s", of, got, want)
		}
		if answer(arch, unix.SYS_CLONE, unix.CLONE_NEWUSER) != 1 || answer(arch, unix.SYS_CLONE, 0) != 0 {
			t.Errorf("%+v: clone is not as it should be", of)
		}
	}
}

// TestTakeLost: of contexts that were lost only those are told that the turn knows, in the generation that was lost.
func TestTakeLost(t *testing.T) {
	t.Parallel()
	c := &contexts{lost: map[string]int{"main": 1, "kept": 2, "restarted": 2, "forgotten": 1}}
	if !c.isLost("main", 1) || c.isLost("main", 2) || c.isLost("other", 1) {
		t.Error("main of generation 1 is lost, and no other")
	}
	got := c.takeLost(turn{context: "main", generation: 1, contexts: map[string]int{"kept": 2, "restarted": 3, "other": 1}})
	if !slices.Equal(got, []string{"kept"}) || len(c.lost) > 0 {
		t.Errorf("got %q, and %v is still to be told", got, c.lost)
	}
}
