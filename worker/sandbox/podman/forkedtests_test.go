package podman_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// forking are sandboxes in which one interpreter makes the processes of a program's tests.
func forking(tb testing.TB, worker string) *podman.Sandboxes {
	tb.Helper()
	return forkingIn(tb, worker, pythonRuntime(tb).Env)
}

func forkingIn(tb testing.TB, worker string, env map[string]string) *podman.Sandboxes {
	tb.Helper()
	r := pythonRuntime(tb)
	_, command := r.Command("", nil)
	return keepWarmOf(tb, worker, suite.image, &podman.Preload{
		Command: command, Env: env, MemoryMB: r.Preload.MemoryMB, Words: r.Preload.Words, SnapshotWords: r.Preload.SnapshotWords, Forks: r.Preload.Forks,
	})
}

// gradeIn runs a program on the inputs as a job's tests, forked or not.
func gradeIn(tb testing.TB, p *podman.Sandboxes, forked bool, program sandbox.Program, args []string, inputs ...string) (sandbox.Outcome, []testRun) {
	tb.Helper()
	g := &graded{inputs: inputs, args: args}
	program.Tests, program.ForkTests = g, forked
	o, err := p.Run(tb.Context(), program, g)
	if err != nil {
		tb.Fatalf("%v, after %d tests", err, len(g.got))
	}
	return o, g.got
}

// isForked is put before a program: it says on stderr how its process was made, for the test alone.
const isForked = "import os; os.write(2, b'forked ' if os.getppid() != 1 else b'plain '); del os\n"

// TestForkedTests: a test's process that is forked is as one that is started, for whatever a program can see; what differs
// is in runtimes/README.md. Each program is run three times, so what one leaves would be seen by the next.
func TestForkedTests(t *testing.T) {
	t.Parallel()
	p := forking(t, "forked-tests")
	r := pythonRuntime(t)
	for _, tt := range []struct {
		name, source string
		files        []sandbox.File
		args         []string
		env          map[string]string
		limits       job.Limits
		merged       bool
		// silent: it comes to no first line.
		silent bool
		// plainly: it is not forked, as a file of it has the name of a module that was imported, as it has an environment of its own, or as that failed.
		plainly bool
	}{
		{name: "arguments and environment", args: []string{"a", "", "b c", "é", "\xff"}, source: `
import os, sys
print(sys.argv, sys.orig_argv, sorted(os.environ.items()), sys.path, sys.flags, __name__, __file__, os.getcwd(), sorted(globals()))`},
		{name: "modules", source: `
import sys
print(sorted(m for m in sys.modules if not m.startswith("glovebox")))
import resource, ctypes, socket, json, struct, gc, atexit, threading, multiprocessing
print(resource.getrlimit(resource.RLIMIT_NOFILE), ctypes.sizeof(ctypes.c_int), socket.AF_INET, gc.isenabled(), gc.get_threshold(), ctypes.CDLL(None).getuid() > 9_999)`},
		{name: "process", source: `
import os, sys, resource, signal, threading
print(os.getpid() == os.getsid(0) == os.getpgrp(), os.getuid() == os.getgid() == os.geteuid() == os.getresuid()[2] >= 10_000, os.getgroups(), oct(os.umask(0)))
print([resource.getrlimit(getattr(resource, n)) for n in sorted(vars(resource)) if n.startswith("RLIMIT_")])
print({s: signal.getsignal(s) for s in signal.valid_signals() if signal.getsignal(s) is not signal.SIG_DFL}, signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNewPrivs", "Seccomp", "Groups", "Threads")) and not l.startswith("CapBnd")])
print(sorted(os.listdir("/proc/self/fd")), threading.current_thread().name, threading.active_count())`},
		{name: "streams", source: `
import os, sys
for s in sys.stdin, sys.stdout, sys.stderr:
    print(s, s.buffer, s.buffer.raw, s.encoding, s.errors, s.isatty(), s.line_buffering, s.writable(), s.seekable(), s.newlines)
print(os.lseek(0, 0, os.SEEK_CUR), open("/dev/stdin").read(), sys.stdin.read(), input is __builtins__.input)
open("/dev/stdout", "w").write("out\n"); open("/proc/self/fd/2", "w").write("err\n")
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__)`},
		{name: "the rest of stdin", source: "import sys\nprint(input()); print(sys.stdin.buffer.readline(), sys.stdin.read())"},
		{name: "merged", merged: true, source: "import sys\nprint(1); print(2, file=sys.stderr); print(3)"},
		{name: "an error", source: "def f(n):\n    return 1 // n\nf(0)"},
		{name: "a syntax error", silent: true, source: "print(1\nx ="},
		{name: "exit", source: "import atexit, sys\natexit.register(print, 'atexit')\nclass C:\n    def __del__(self): print('gone')\nc = C()\nsys.exit(7)"},
		{name: "exit with words", source: "raise SystemExit('words')"},
		{name: "signal", source: "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"},
		{name: "interrupt", source: "import os, signal\nos.kill(os.getpid(), signal.SIGINT)"},
		{name: "children", source: `
import os, subprocess, multiprocessing, threading
print(subprocess.run(["id", "-u"], capture_output=True, text=True).stdout == f"{os.getuid()}\n", os.system("exit 3") >> 8)
if os.fork() == 0:
    print("child"); os._exit(0)
os.wait()
with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()`},
		{name: "another's ids", source: `
import ctypes, os, signal
for f in lambda: os.setuid(0), lambda: os.setresuid(9999, 9999, 9999), lambda: os.setgid(0), lambda: os.setgroups([]), lambda: os.kill(1, 9), lambda: os.kill(os.getppid(), 9):
    try: print("got", f())
    except PermissionError as e: print(e)
    except ProcessLookupError as e: print(e)
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, os.getppid(), 0, 0), libc.unshare(0x10000000))
for d in os.listdir("/proc"):
    if d.isdigit() and int(d) != os.getpid():
        for f in "environ", "mem", "maps", "fd", "cwd":
            try: print("read", f, os.listdir(f"/proc/{d}/{f}") if f in ("fd", "cwd") else open(f"/proc/{d}/{f}", "rb").read(1))
            except OSError: pass`},
		{name: "processes", limits: job.Limits{Processes: 5}, source: `
import os, time
n = 0
try:
    while n < 50:
        if os.fork() == 0: time.sleep(60)
        n += 1
except OSError as e: print(n, e)`},
		{name: "one process", limits: job.Limits{Processes: 1}, source: "import os\ntry: os.fork()\nexcept OSError as e: print(e)"},
		{name: "few descriptors", limits: job.Limits{OpenFiles: 16}, source: "import os\nx = []\ntry:\n    while True: x.append(os.open('/dev/null', 0))\nexcept OSError as e: print(len(x), e)"},
		{name: "file size", limits: job.Limits{FileMB: 1}, source: "try:\n    with open('x', 'wb') as f:\n        while True: f.write(bytes(4096))\nexcept OSError as e: print(e)\nimport os; print(os.path.getsize('x'))"},
		{name: "address space", limits: job.Limits{AddressSpaceMB: 512}, source: "try: bytearray(600 << 20)\nexcept MemoryError: print('no')\nimport resource; print(resource.getrlimit(resource.RLIMIT_AS))"},
		{name: "stack", limits: job.Limits{StackMB: 3}, source: "import resource; print(resource.getrlimit(resource.RLIMIT_STACK))"},
		{name: "a module of its own", source: "import helper, resource, glob\nprint(helper.x, resource.x, glob.x)", files: []sandbox.File{
			{Name: "helper.py", Content: []byte("x = 1")}, {Name: "resource.py", Content: []byte("x = 2")}, {Name: "glob.py", Content: []byte("x = 3")},
		}},
		{name: "numpy", source: "import numpy, sys\nprint(numpy.arange(3) * 2, sys.stdin.read(), numpy.__file__)"},
		{name: "pandas", source: "import pandas\nprint(pandas.DataFrame({'a': [1, 2]}).describe())"},
		{name: "matplotlib", source: "import matplotlib.pyplot as plt, sys\nplt.plot([1, 2]); plt.savefig('x.png'); print(open('x.png', 'rb').read(4), plt.get_backend())"},
		{name: "sympy", source: "import sympy\nprint(sympy.integrate(sympy.Symbol('x')))"},
		{name: "a word without its module", source: "# sklearn\nprint('sklearn')"},
		{name: "no such module", source: "import statsmodels"},
		{name: "its own numpy", plainly: true, source: "import numpy\nprint(numpy.x)", files: []sandbox.File{{Name: "numpy.py", Content: []byte("x = 5")}}},
		{name: "its own random", plainly: true, source: "import pandas", files: []sandbox.File{{Name: "random/__init__.py", Content: []byte("x = 5")}}},
		{name: "fewer descriptors than it takes to tell of a test", plainly: true, limits: job.Limits{OpenFiles: 6}, source: "import sys\nprint(open('main.py').read(5))"},
		{name: "threads of numpy", source: "import numpy, threading\na = numpy.ones((300, 300))\nts = [threading.Thread(target=lambda: print((a @ a).sum())) for _ in range(3)]\nfor t in ts: t.start(); t.join()"},
		{name: "an environment of its own", plainly: true, env: map[string]string{"GLOVEBOX_FORK_WORDS": "antigravity", "PYTHONPATH": "/work"}, source: "import os, sys\nprint(sorted(os.environ.items()), 'webbrowser' in sys.modules)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			source := tt.source
			if !tt.merged {
				source = isForked + source
			}
			prog := program(source, asJobOf(r), limits(tt.limits))
			prog.Files = append(prog.Files, tt.files...)
			prog.MergeStderr = tt.merged
			maps.Copy(prog.Env, tt.env)
			inputs := []string{"4\nfive\n", "", "one"}
			o, want := gradeIn(t, p, false, prog, tt.args, inputs...)
			o2, got := gradeIn(t, p, true, prog, tt.args, inputs...)
			if o.Status != job.Succeeded || o2.Status != job.Succeeded || len(got) != len(inputs) || len(want) != len(inputs) {
				t.Fatalf("got %+v after %d tests, plainly %+v after %d", o2, len(got), o, len(want))
			}
			for i, g := range got {
				how, stderr, _ := strings.Cut(g.stderr, " ")
				_, plainly, _ := strings.Cut(want[i].stderr, " ")
				if tt.merged {
					stderr, plainly = g.stderr, want[i].stderr
				} else if !tt.silent && (how == "forked") == tt.plainly {
					t.Errorf("test %d: its process was %s", i+1, how)
				}
				g.Usage, want[i].Usage = job.Usage{}, job.Usage{}
				if g.TestOutcome != want[i].TestOutcome || g.stdout != want[i].stdout || stderr != plainly {
					t.Errorf("test %d:\n%+v\n%s\n%s\nplainly:\n%+v\n%s\n%s", i+1, g.TestOutcome, g.stdout, stderr, want[i].TestOutcome, want[i].stdout, plainly)
				}
			}
		})
	}
}

// TestForkedTestsImport: what makes the processes imports nothing that the program has, where its runtime lets it be found.
func TestForkedTestsImport(t *testing.T) {
	t.Parallel()
	prog := program(isForked+"import resource\nprint(resource.x)", asJobOf(pythonRuntime(t)))
	prog.Env["PYTHONPATH"] = "/work"
	prog.Files = append(prog.Files, sandbox.File{Name: "resource.py", Content: []byte("import os\nx = os.getuid() >= 10_000")})
	o, got := gradeIn(t, forkingIn(t, "forked-import", prog.Env), true, prog, nil, "", "", "")
	if o.Lost || len(got) != 3 {
		t.Fatalf("got %+v after %d tests", o, len(got))
	}
	for i, g := range got {
		if g.stdout != "True\n" || g.stderr != "forked " {
			t.Errorf("test %d: got %+v, %q, %q", i+1, g.TestOutcome, g.stdout, g.stderr)
		}
	}
}

// TestForkedTestsAreFresh: no two tests of a submission have the same random numbers, temporary names or clocks.
func TestForkedTestsAreFresh(t *testing.T) {
	t.Parallel()
	p := forking(t, "forked-fresh")
	_, got := gradeIn(t, p, true, program(isForked+`
import numpy, sympy, random, secrets, ssl, tempfile, time, uuid
print(random.random()); print(numpy.random.random()); print(secrets.token_hex()); print(ssl.RAND_bytes(8)); print(uuid.uuid4()); print(uuid.uuid1())
print(tempfile.mktemp()); print(sympy.Dummy().dummy_index); print(time.process_time() > 30)
`, asJobOf(pythonRuntime(t))), nil, "", "", "", "")
	seen := map[string]bool{}
	for i, g := range got {
		lines := strings.Split(strings.TrimSpace(g.stdout), "\n")
		if len(lines) != 9 || g.stderr != "forked " || lines[8] != "False" {
			t.Fatalf("test %d: got %q, %q", i+1, g.stdout, g.stderr)
		}
		for _, line := range lines[:8] {
			if seen[line] {
				t.Errorf("test %d: %s was drawn before", i+1, line)
			}
			seen[line] = true
		}
	}
	if len(got) != 4 {
		t.Errorf("got %d tests", len(got))
	}
}

// TestTestsHaveNoInternet: where they are refused, no test has a socket of the internet's protocols, whether its process is forked or started. Others
// have them.
func TestTestsHaveNoInternet(t *testing.T) {
	t.Parallel()
	p := forking(t, "no-internet")
	for how, forked := range map[string]bool{"forked ": true, "plain ": false} {
		for want, refused := range map[string]bool{strings.Repeat("EAFNOSUPPORT\n", 4) + "True\n": true, strings.Repeat("True\n", 5): false} {
			prog := program(isForked+`
import errno, socket
for family in socket.AF_INET, socket.AF_INET6:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        try: print(socket.socket(family, kind).family == family)
        except OSError as e: print(errno.errorcode[e.errno])
print(socket.socketpair()[0].family == socket.AF_UNIX)
`, asJobOf(pythonRuntime(t)))
			prog.NoInternet = refused
			_, got := gradeIn(t, p, forked, prog, nil, "", "", "")
			if len(got) != 3 {
				t.Fatalf("got %d tests", len(got))
			}
			for i, g := range got {
				if g.stdout != want || g.stderr != how {
					t.Errorf("%srefused %t, test %d: got %q, %q, want %q", how, refused, i+1, g.stdout, g.stderr, want)
				}
			}
		}
	}
}

// TestForkedTestsLeaveNothing: a program that forks, stops, hides and floods has no process in the next test, and doesn't reach what
// makes it.
func TestForkedTestsLeaveNothing(t *testing.T) {
	t.Parallel()
	p := forking(t, "forked-leave")
	hostile := `
import os, signal, sys, time, ctypes
what = sys.stdin.read()
others = sorted(d for d in os.listdir("/proc") if d.isdigit() and int(d) not in (1, os.getpid(), os.getppid()))
print(what, len(others), os.listdir("/tmp"), sorted(os.listdir("/work")))
for sig in signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL, signal.SIGCONT, signal.SIGTRAP:
    for pid in 1, os.getppid(), -1:
        if pid != -1:
            try: os.kill(pid, sig); print("sent", sig, pid)
            except OSError: pass
open("/tmp/left", "w").write(what)
libc = ctypes.CDLL(None)
if what == "orphans":
    for i in range(8):
        if os.fork() == 0:
            os.setsid()
            for s in range(1, 32):
                try: signal.signal(s, signal.SIG_IGN)
                except (OSError, ValueError): pass
            if os.fork() == 0: time.sleep(600)
            time.sleep(600)
if what == "bomb":
    sys.stdout.flush()
    while True:
        try: os.fork()
        except OSError: pass
if what == "short-lived":
    for i in range(8):
        if os.fork() == 0:
            if os.fork() == 0: os._exit(0)
            os._exit(0)
        os.wait()
if what == "stopped":
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
if what == "traced":
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
if what == "thread":
    import threading
    threading.Thread(target=lambda: time.sleep(600)).start()
    time.sleep(.1); os._exit(0)
def clone(flags):
    return libc.syscall(56 if os.uname().machine == "x86_64" else 220, flags, 0, 0, 0, 0)
if what == "sibling that has ended" and clone(0x8000 | signal.SIGCHLD) == 0: libc._exit(0)  # CLONE_PARENT
if what == "siblings":
    for i in range(20):
        if clone(0x8000 | signal.SIGCHLD) == 0:
            while True: libc.pause()
if what == "silent sibling" and clone(0x8000) == 0:
    while True: libc.pause()
if what == "executes":
    os.execvp("sh", ["sh", "-c", "(setsid sleep 600 &) ; echo executed"])
`
	inputs := []string{"first", "orphans", "bomb", "short-lived", "stopped", "traced", "thread", "executes", "sibling that has ended", "siblings", "silent sibling", "last"}
	o, got := gradeIn(t, p, true, program(isForked+hostile, asJobOf(pythonRuntime(t)), limits(job.Limits{WallMS: 15_000, CPUMS: 6_000, MemoryMB: 1024})), nil, inputs...)
	if o.Lost || len(got) != len(inputs) {
		t.Fatalf("got %+v after %d tests", o, len(got))
	}
	for i, g := range got {
		want := fmt.Sprintf("%s 0 [] ['main.py']\n", inputs[i])
		if inputs[i] == "executes" {
			want += "executed\n"
		}
		if g.stdout != want || !strings.HasPrefix(g.stderr, "forked ") {
			t.Errorf("%s: got %v, %q, %q, want %q", inputs[i], g.TestOutcome, g.stdout, g.stderr, want)
		}
		if timed := g.Status == job.TimedOut; timed != slices.Contains([]string{"bomb", "traced"}, inputs[i]) {
			t.Errorf("%s: got %+v", inputs[i], g.TestOutcome)
		}
	}
}
