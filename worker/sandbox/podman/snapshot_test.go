package podman_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// awaitSnapshot waits until a sandbox that goes on from a snapshot waits for a program.
func awaitSnapshot(tb testing.TB, p *podman.Sandboxes) podman.Snapshot {
	tb.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) { // many are made beside it
		if s, ok := p.SnapshotOf(suite.image); ok && p.CurrentOf(suite.image) > 0 {
			return s
		}
		if time.Now().After(deadline) {
			tb.Fatal("no sandbox that goes on from a snapshot waits after five minutes")
		}
	}
}

// runHere runs a Python program, which must succeed, and returns what it printed.
func runHere(t *testing.T, p *podman.Sandboxes, source string) (sandbox.Outcome, string) {
	t.Helper()
	k := &kept{}
	o, err := p.Run(t.Context(), program(source, asJobOf(pythonRuntime(t))), k)
	if err != nil || o.Status != job.Succeeded {
		t.Fatalf("got %+v, %v\n%s%s", o, err, k.stdout.String(), k.stderr.String())
	}
	return o, k.stdout.String()
}

// TestSnapshot: one program after another gets a sandbox that went on from the same snapshot, and
// finds its interpreter preloaded.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, fromSnapshots+"basic", 1)
	s := awaitSnapshot(t, p)
	if age := time.Since(s.Made); len(s.Digest) != 64 || s.Bytes < 10<<20 || age < 0 || age > time.Hour {
		t.Errorf("got %+v", s)
	}
	for range 3 {
		awaitSnapshot(t, p)
		o, out := runHere(t, p, "import sys; open('left', 'w').write('x'); print('numpy' in sys.modules)")
		if o.Snapshot != s.Digest || !o.Preloaded || !o.Warm || out != "True\n" {
			t.Errorf("got %+v, %q, want a preloaded program from %s", o, out, s.Digest)
		}
	}
	// Where none waits, one is made for a program that gains by it, from the snapshot, too.
	awaitSnapshot(t, p)
	var cold sandbox.Outcome
	for range 20 {
		if cold, _ = runHere(t, p, "import numpy"); !cold.Warm {
			break
		}
	}
	if cold.Warm || !cold.Preloaded || cold.Snapshot != s.Digest {
		t.Errorf("got %+v, want a sandbox that was made for the program, from the snapshot", cold)
	}
}

// TestSnapshotInBusyTimes: a worker's sandboxes go on from the snapshot while programs leave them no quiet
// second; those that get one preload by themselves, and take the others' places.
func TestSnapshotInBusyTimes(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, withSnapshots+"busy", 1)
	awaitOwnPreload := func() {
		t.Helper()
		gbtest.Eventually(t, "a sandbox that preloaded by itself waits, and none from the snapshot", func() bool {
			_, ok := p.SnapshotOf(suite.image)
			return ok && p.PreloadedOf(suite.image) > 0 && p.CurrentOf(suite.image) == 0
		})
	}
	awaitOwnPreload()
	s, _ := p.SnapshotOf(suite.image)
	if o, _ := runHere(t, p, "import numpy"); o.Snapshot != "" || !o.Preloaded || !o.Warm {
		t.Errorf("got %+v, want a program in a sandbox that preloaded by itself", o)
	}
	for n := 0; ; n++ { // busy: one right after the other
		o, _ := runHere(t, p, "import numpy")
		if o.Snapshot == s.Digest && o.Warm {
			break
		}
		if n == 100 {
			t.Fatalf("the last of %d programs got %+v, want a waiting sandbox from %s", n, o, s.Digest)
		}
	}
	awaitOwnPreload()
	if o, out := runHere(t, p, "import sys; print('numpy' in sys.modules)"); o.Snapshot != "" || !o.Preloaded || out != "True\n" {
		t.Errorf("got %+v, %q, want a program in a sandbox that preloaded by itself", o, out)
	}
}

// TestSnapshotHasMore: a program that gains by what is imported in the snapshot alone goes on from that, though another
// sandbox waits, which preloaded by itself.
func TestSnapshotHasMore(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, withSnapshots+"more", 1)
	await := func() podman.Snapshot {
		t.Helper()
		gbtest.Eventually(t, "a sandbox that preloaded by itself waits, and none from the snapshot", func() bool {
			_, ok := p.SnapshotOf(suite.image)
			return ok && p.PreloadedOf(suite.image) > 0 && p.CurrentOf(suite.image) == 0
		})
		s, _ := p.SnapshotOf(suite.image)
		return s
	}
	s := await()
	if o, out := runHere(t, p, "import sys; print('numpy' in sys.modules, 'sym' + 'py' in sys.modules)"); o.Snapshot != "" || !o.Preloaded || out != "True False\n" {
		t.Errorf("got %+v, %q, want a program in a sandbox that preloaded by itself, without sympy", o, out)
	}
	await()
	const source = "import sys; print('numpy' in sys.modules, 'sympy' in sys.modules)"
	if o, out := runHere(t, p, source); o.Snapshot != s.Digest || o.Warm || out != "True True\n" {
		t.Errorf("got %+v, %q, want a program in a sandbox that was made for it from %s, with sympy", o, out, s.Digest)
	}
	for range 4 { // as more such programs come, what waits went on from the snapshot
		runHere(t, p, source)
	}
	awaitSnapshot(t, p)
	if o, out := runHere(t, p, source); o.Snapshot != s.Digest || !o.Warm || out != "True True\n" {
		t.Errorf("got %+v, %q, want a program in a sandbox that waited, from %s, with sympy", o, out, s.Digest)
	}
}

// TestSnapshotIsFresh: what is drawn at random, and what tells the time, is a program's own, although
// many go on from the same snapshot; and all else is as in a sandbox that was started.
//
// A process's id counts the agent's threads, too, of which Go makes one more or less.
func TestSnapshotIsFresh(t *testing.T) {
	t.Parallel()
	open(t)
	const source = `
import json, os, platform, random, re, resource, secrets, socket, ssl, sys, tempfile, time, uuid
import numpy, sympy
differ = {
    "random": random.random(), "another generator": random.Random().random(), "numpy": numpy.random.random(),
    "numpy's own": numpy.random.default_rng().random(), "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()),
    "secrets": secrets.token_hex(), "urandom": os.urandom(8).hex(), "ssl": ssl.RAND_bytes(8).hex(),
    "sympy": sympy.core.random.random(), "sympy's assumptions": sympy.core.random._assumptions_rng.random(), "sympy's dummies": sympy.Dummy().dummy_index,
    "a file's name": tempfile.mktemp(), "/dev/urandom": open("/dev/urandom", "rb").read(8).hex(),
    "the kernel's": open("/proc/sys/kernel/random/uuid").read() if os.path.exists("/proc/sys/kernel/random/uuid") else os.urandom(8).hex(),
}
same = {
    "low pid": os.getpid() < 32, "parent": os.getppid(), "leads its session": os.getsid(0) == os.getpid(), "host": socket.gethostname(), "uname": list(platform.uname()),
    "user": os.getresuid(), "groups": os.getgroups(), "directory": os.getcwd(), "environment": dict(os.environ), "open": sorted(os.listdir("/proc/self/fd")),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT") and n != "RLIMIT_CPU"},
    "files": sorted(os.listdir("/tmp")) + sorted(os.listdir("/work")) + sorted(os.listdir("/dev/shm")), "root": sorted(os.listdir("/")),
    "mask": os.umask(0), "mounts": re.sub("ifd=[0-9]+", "", open("/proc/mounts").read()), "argv": sys.argv, "orig": sys.orig_argv,
}
before = time.monotonic(), time.perf_counter()
time.sleep(0.2)
passed = [time.monotonic() - before[0], time.perf_counter() - before[1]]
print(json.dumps({"differ": differ, "same": same, "time": time.time(), "passed": passed, "hash": hash("x")}))
`
	type said struct {
		Differ map[string]any
		Same   map[string]any
		Time   float64
		Passed []float64
		Hash   int64
	}
	p := preloaded(t, fromSnapshots+"fresh", 1)
	get := func(p *podman.Sandboxes) (s said) {
		_, out := runHere(t, p, source)
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatal(err)
		}
		if off := time.Since(time.UnixMicro(int64(s.Time * 1e6))).Abs(); off > gbtest.AtOnce {
			t.Errorf("the time there is %v off", off)
		}
		for _, seconds := range s.Passed {
			if seconds < 0.19 || seconds > gbtest.AtOnce.Seconds() {
				t.Errorf("0.2 s of sleep were %v by its clocks", s.Passed)
			}
		}
		return s
	}
	awaitSnapshot(t, p)
	one := get(p)
	awaitSnapshot(t, p)
	two := get(p)
	plain := get(warm(t, "fresh-plain", 1))
	for what, value := range one.Differ {
		if value == two.Differ[what] {
			t.Errorf("%s: %v in two sandboxes of one snapshot", what, value)
		}
	}
	for what, want := range plain.Same {
		for _, got := range []any{one.Same[what], two.Same[what]} {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %q, want %q as in a sandbox that was started", what, got, want)
			}
		}
	}
	if one.Hash != two.Hash {
		t.Error("Python's hashes have a seed each: docs/security.md says that they share one")
	}
}

// TestSpoiltSnapshot: a snapshot that is broken, or of other files, costs no program anything, and is
// made anew.
func TestSpoiltSnapshot(t *testing.T) {
	t.Parallel()
	open(t)
	const state, pages = 0, 2
	spoils := map[string]func(*podman.Sandboxes) error{
		"no state":       func(p *podman.Sandboxes) error { return p.Spoil(suite.image, truncate(state, 0, 1)) },
		"half a state":   func(p *podman.Sandboxes) error { return p.Spoil(suite.image, truncate(state, 1, 2)) },
		"half of pages":  func(p *podman.Sandboxes) error { return p.Spoil(suite.image, truncate(pages, 1, 2)) },
		"another state":  func(p *podman.Sandboxes) error { return p.Spoil(suite.image, overwrite(state)) },
		"of other files": func(p *podman.Sandboxes) error { p.Relabel(suite.image); return nil },
	}
	for _, name := range namesInShort(0, 4, spoils) { // each makes two snapshots
		spoil := spoils[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &gbtest.Buffer{}
			p := preloaded(t, fromSnapshots+"spoilt-"+strings.ReplaceAll(name, " ", "-"), 1, slog.New(slog.NewTextHandler(log, nil)))
			good := awaitSnapshot(t, p)
			if err := spoil(p); err != nil {
				t.Fatal(err)
			}
			bad, found := p.SnapshotOf(suite.image)
			spoilt := found && bad.Digest != good.Digest // else it is the good one's that sandboxes have which waited before
			for range 3 {
				if o, out := runHere(t, p, "print(1)"); out != "1\n" || spoilt && o.Snapshot == bad.Digest {
					t.Errorf("got %+v, %q", o, out)
				}
			}
			for s := awaitSnapshot(t, p); !s.Made.After(bad.Made); s = awaitSnapshot(t, p) {
				runHere(t, p, "print(1)") // which finds it out, where none has yet
			}
			if !strings.Contains(log.String(), "no sandbox could go on from the snapshot") {
				t.Errorf("the log says nothing of it:\n%s", log.String())
			}
		})
	}
}

// truncate shortens a file of a snapshot to a part of it.
func truncate(file int, part, of int64) func([3]*os.File) error {
	return func(files [3]*os.File) error {
		info, err := files[file].Stat()
		if err != nil {
			return err
		}
		return files[file].Truncate(max(1, info.Size()*part/of))
	}
}

// overwrite spoils the middle of a file.
func overwrite(file int) func([3]*os.File) error {
	return func(files [3]*os.File) error {
		info, err := files[file].Stat()
		if err != nil {
			return err
		}
		_, err = files[file].WriteAt([]byte(strings.Repeat("spoilt ", 1000)), info.Size()/2)
		return err
	}
}

// TestSnapshotIsSealed: a snapshot that was given away can't be changed.
func TestSnapshotIsSealed(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, fromSnapshots+"sealed", 1)
	awaitSnapshot(t, p)
	files, err := p.SnapshotFiles(suite.image)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		defer f.Close()
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Error("it could be written")
		}
		again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0) // as its owner can
		if err != nil {
			continue
		}
		defer again.Close()
		if _, err := again.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("write: got %v, want EPERM", err)
		}
		if err := again.Truncate(0); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncate: got %v, want EPERM", err)
		}
		if _, err := unix.Mmap(int(again.Fd()), 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
			t.Errorf("map: got %v, want EPERM", err)
		}
	}
}
