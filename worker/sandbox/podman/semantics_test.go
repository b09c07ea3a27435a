package podman_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// files adds files to a program.
func files(pairs ...string) func(*sandbox.Program) {
	return func(p *sandbox.Program) {
		for i := 0; i < len(pairs); i += 2 {
			p.Files = append(p.Files, sandbox.File{Name: pairs[i], Content: []byte(pairs[i+1])})
		}
	}
}

func stdin(text string) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Stdin = []byte(text) }
}

func env(name, value string) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Env[name] = value }
}

// state is most of what a program can ask about itself and its process. What differs by
// nature is TestPreloadedDiffers's.
const state = `"""the doc"""
names = sorted(globals())
import sys
frames = []
f = sys._getframe()
while f: frames.append((f.f_code.co_filename, f.f_code.co_name, f.f_lineno)); f = f.f_back
print(names, __name__, __file__, __doc__, __package__, __spec__, type(__loader__), __loader__.name, __loader__.path, __builtins__)
print(frames)
print(sys.argv, sys.orig_argv, sys.path, sys.executable, sys.flags, sys.warnoptions, sys._xoptions)
import os, threading, signal, gc, resource, locale, atexit, stat
print(sorted(os.environ.items()))
fds = os.listdir('/proc/self/fd')
print([fd for fd in sorted(fds) if os.path.exists('/proc/self/fd/' + fd)], [stat.S_IFMT(os.fstat(fd).st_mode) for fd in (0, 1, 2)])
print(os.open('/dev/null', os.O_RDONLY), [os.readlink('/proc/self/fd/' + fd)[:9] for fd in sorted(fds) if int(fd) > 2])
print(os.getcwd(), os.listdir('.'), os.listdir('/tmp'), os.listdir('/dev/shm'), oct(os.umask(0o77)))
print(os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), os.getsid(0) == os.getpid() == os.getpgid(0), os.getppid(), os.getpriority(0, 0), os.sched_getaffinity(0))
print([line for line in open('/proc/self/status') if line.startswith(('Cap', 'Seccomp', 'NoNewPrivs', 'Threads', 'Sig', 'Uid', 'Gid'))])
print([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) if n.startswith('RLIMIT_') and n != 'RLIMIT_CPU'])
print([(s.name, str(signal.getsignal(s))[:20]) for s in signal.valid_signals() if isinstance(s, signal.Signals)], signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(threading.active_count(), threading.current_thread().name, threading.main_thread() is threading.current_thread(), threading.stack_size(), len(sys._current_frames()))
print(gc.get_threshold(), gc.isenabled(), gc.get_debug(), gc.callbacks, sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
print(locale.getlocale(), locale.setlocale(locale.LC_ALL), sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(type(s), s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.isatty(), s.seekable(), s.buffer.raw.name, s.buffer.raw.mode, s.fileno(), type(s.buffer), s.buffer.raw.closefd)
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, sys.displayhook is sys.__displayhook__, sys.excepthook.__qualname__, sys.unraisablehook is sys.__unraisablehook__)
print(sys.dont_write_bytecode, sys.pycache_prefix, sys.hash_info, sys.implementation.cache_tag, sys.platlibdir, sys.prefix, hasattr(sys, 'ps1'), hasattr(sys, 'last_exc'), sys.exc_info())
import faulthandler, multiprocessing, tempfile, logging, decimal, time, linecache, tracemalloc, warnings
print(faulthandler.is_enabled(), multiprocessing.get_start_method(), tempfile.gettempdir(), logging.root.handlers, logging.root.level, decimal.getcontext(), time.tzname, tracemalloc.is_tracing())
print(logging.makeLogRecord({}).relativeCreated < 5000, warnings.showwarning.__module__)
import __main__
print(__main__ is sys.modules['__main__'], __main__.names is names, repr(__main__))
import inspect
def here():
    return inspect.stack()[1].lineno, inspect.getsource(here)
print(here(), inspect.getsourcefile(here))
class P: pass
import pickle
print(pickle.dumps(P()), type(pickle.loads(pickle.dumps(P()))) is P)
print(eval('__name__'), compile('1', 'x', 'eval').co_flags, sys.getdlopenflags(), os.get_terminal_size.__name__, os.get_exec_path())
`

// address is where an object lies, as Python tells of it, or which process warns, as Node does.
var address = regexp.MustCompile(`0x[0-9a-f]{8,}|\(node:\d+\)`)

// TestPreloadedSemantics runs the same programs cold and preloaded: nobody must be able to
// tell which by what they do.
func TestPreloadedSemantics(t *testing.T) {
	t.Parallel()
	withAndWithoutSnapshots(t, "semantics", 2, testPreloadedSemantics)
}

func testPreloadedSemantics(t *testing.T, p *podman.Sandboxes) {
	t.Helper()
	python := asJobOf(pythonRuntime(t))
	with := func(source string, options ...func(*sandbox.Program)) sandbox.Program {
		// The default of 10 s is little for a cold start with pandas beside all other tests.
		patient := limits(job.Limits{WallMS: 60_000, CPUMS: 60_000})
		return program(source, append([]func(*sandbox.Program){python, patient}, options...)...)
	}
	programs := map[string]sandbox.Program{
		"state":               with(state),
		"state, told more":    with(state, stdin("in"), env("MINE", "ä\n=x"), env("EMPTY", "")),
		"arguments":           with("import sys; print(sys.argv)", command("python3", "main.py", "-c", "ä b", "", "--", "$HOME")),
		"stdin":               with("import sys; print(repr(sys.stdin.read()), repr(sys.stdin.read()), sys.stdin.buffer.raw.tell())", stdin("a\r\nb\rc\n")),
		"stdin by lines":      with("import sys\nfor l in sys.stdin: print(repr(l))\nprint(input.__name__)", stdin("a\r\nb\n\nc")),
		"stdin by input":      with("print(repr(input()), repr(input('? ')))\ninput()", stdin("a\nb\n")),
		"stdin of bytes":      with("import sys, os; print(sys.stdin.buffer.read(2), os.read(0, 9), os.lseek(0, 1, 0), os.read(0, 3))", stdin("\x00\xff\x01\x02")),
		"stdin of no text":    with("import sys; print(ascii(sys.stdin.read()))", stdin("\xff\xfe")),
		"no stdin":            with("import sys; print(repr(sys.stdin.read())); input()"),
		"exit code":           with("import sys; print('x', end=''); sys.exit(7)"),
		"exit code beyond":    with("import sys; sys.exit(256 + 3)"),
		"exit with a word":    with("import sys; sys.exit('so be ä')"),
		"exit with nothing":   with("import sys; sys.exit()"),
		"exit by raising":     with("class E(SystemExit): pass\ndef f():\n  raise E(5)\nf()"),
		"exit at once":        with("import os, atexit; atexit.register(print, 'never'); print('lost'); os._exit(4)"),
		"error":               with("def f(x):\n    return 1 / x\n\ntry:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e\n"),
		"error while handled": with("def f():\n    try:\n        1/0\n    finally:\n        {}['x']\nf()"),
		"error group":         with("raise ExceptionGroup('g', [ValueError(1), TypeError('x')])"),
		"error with notes":    with("e = ValueError('x')\ne.add_note('note')\nraise e"),
		"no such name":        with("prin('x')"),
		"syntax":              with("def f(:\n  pass\n"),
		"indentation":         with("if 1:\nprint(1)\n"),
		"no Unicode":          with("x = '\xff'"),
		"syntax elsewhere":    with("import broken", files("broken.py", "x = = 1\n")),
		"error elsewhere":     with("import mine\nmine.f()", files("mine/__init__.py", "from .deep import f\n", "mine/deep.py", "def f():\n    raise RuntimeError('deep')\n")),
		"no such module":      with("import nowhere"),
		"circular":            with("import a", files("a.py", "import b\nx = 1\n", "b.py", "from a import x\n")),
		"recursion":           with("def f(n): return f(n + 1)\nf(0)"),
		"depth":               with("import sys\nn = 0\ndef f():\n    global n; n += 1; f()\ntry: f()\nexcept RecursionError: print(n)"),
		"interrupted":         with("raise KeyboardInterrupt"),
		"SIGINT":              with("import os, signal, time; print('x'); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"),
		"SIGTERM":             with("import os, signal; print('lost', end=''); os.kill(os.getpid(), signal.SIGTERM)"),
		"SIGTERM handled":     with("import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda s, f: sys.exit(f.f_lineno))\nos.kill(os.getpid(), signal.SIGTERM)\nfor i in range(10**9): pass"),
		"SIGKILL":             with("import os; print('x', flush=True); os.kill(os.getpid(), 9)"),
		"SIGPIPE":             with("import os\nr, w = os.pipe(); os.close(r)\nos.write(w, b'x')"),
		"SIGABRT":             with("import os; os.abort()"),
		"fault":               with("import ctypes; print('lost'); ctypes.string_at(0)"),
		"memory":              with("x = bytearray(1 << 60)"),
		"memory over":         with("x = bytearray(600 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"),
		"memory that fits":    with("x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(len(x))"),
		"time":                with("print('x')\nwhile True: pass", limits(job.Limits{WallMS: 1500})),
		"warnings":            with("import warnings\nwarnings.warn('w')\ndef f():\n    warnings.warn('d', DeprecationWarning, stacklevel=2)\nf()\nf()\nprint('\\d', 1 is 1)\nopen('/dev/null')\n"),
		"hook":                with("import sys\nsys.excepthook = lambda *a: print('mine', a[1])\n1/0"),
		"end":                 with("import atexit, threading, time, sys\nclass D:\n    def __del__(self): print('del', sys is not None)\nd = D(); e = [D()]; e.append(e)\nfor i in range(3): atexit.register(print, 'exit', i)\nsaid = threading.Event()\nthreading.Thread(target=lambda: (said.wait(), time.sleep(.2), print('thread'))).start()\nthreading.Thread(target=lambda: time.sleep(99), daemon=True).start()\nf = open('left', 'w'); f.write('unflushed')\nprint('main'); said.set()"),
		"end without threads": with("import atexit, sys, weakref\nclass D:\n    def __del__(self): print('del')\nd = D(); e = [D()]; e.append(e)\nweakref.finalize(d, print, 'finalize')\natexit.register(lambda: sys.stdout.write('exit\\n'))\nf = open('left', 'w'); f.write('unflushed')\nsys.stdout.write('main')"),
		"error at the end":    with("import atexit\natexit.register(lambda: 1/0)\nclass D:\n    def __del__(self): {}[1]\nd = D()"),
		"end elsewhere":       with("import mine, sys\nmine.start()\ng = mine.g(); next(g)\nsys.exit(3)", files("mine.py", "import os, weakref\nclass D:\n    def __init__(self, n): self.n = n\n    def __del__(self): os.write(1, b'del %d\\n' % self.n)\nd = D(1); c = D(2); c.c = c\ndef g():\n    try: yield\n    finally: print('finally')\ndef start(): global r; o = D(3); r = weakref.ref(d, lambda _: print('ref')); return\n")),
		"site":                with("import sys, sitecustomize\nprint(sitecustomize.__file__, sitecustomize.__name__, sorted(vars(sitecustomize)), sitecustomize.__spec__.origin)\nimport usercustomize"),
		"fork":                with("import os, sys\npid = os.fork()\nif pid == 0:\n    print('child', sys.argv); sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
		"fork and error":      with("import os\npid = os.fork()\nif pid == 0: 1/0\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
		"multiprocessing":     with("import multiprocessing as mp, sys\ndef f(x): return x * x, __name__\nif __name__ == '__main__':\n    for m in 'fork', 'spawn', 'forkserver':\n        with mp.get_context(m).Pool(2) as pool: print(m, pool.map(f, range(3)))\n", limits(job.Limits{WallMS: 60_000})),
		"executor":            with("from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\nif __name__ == '__main__':\n    with ThreadPoolExecutor() as e: print(list(e.map(abs, [-1, -2])))\n    with ProcessPoolExecutor(2) as e: print(list(e.map(abs, [-1, -2])))", limits(job.Limits{WallMS: 60_000})),
		"asyncio":             with("import asyncio\nasync def f():\n    await asyncio.sleep(.01)\n    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n    return await p.communicate()\nprint(asyncio.run(f()))"),
		"subprocess":          with("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys, os; print(sys.argv, sys.path, sorted(os.environ.items()), \"numpy\" in sys.modules, sorted(os.listdir(\"/proc/self/fd\")))'], capture_output=True, text=True))"),
		"shell":               with("import os; os.system('trap; ulimit -a | grep -v time; env | sort; ls -l /proc/self/fd | wc -l')"),
		"exec":                with("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'import sys; print(sys.argv, \"numpy\" in sys.modules)'])"),
		"exec after much":     with("import os, sys\nx = b'x' * (200 << 20)\nos.execv(sys.executable, [sys.executable, '-c', 'print(len(b\"x\" * (200 << 20)))'])"),
		"wait":                with("import os\nos.wait()"),
		"all are killed":      with("import os\ntry: os.kill(-1, 9)\nexcept ProcessLookupError: pass\nprint('left')"),
		"runpy":               with("import runpy; print(runpy.run_path('x.py')['y'])", files("x.py", "y = __name__")),
		"modules":             with("import importlib, mine, data\nprint(mine.x, importlib.reload(mine).x, open('data/in.txt').read(), data.__path__)", files("mine.py", "x = __name__", "data/in.txt", "text")),
		"chart shown":         with("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show(); plt.plot([3, 1]); plt.title('two'); plt.show()"),
		"chart left":          with("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.bar(['a', 'b'], [1, 2]); plt.figure(); plt.plot([1])\nprint(plt.get_fignums(), plt.gcf())"),
		"chart saved":         with("import matplotlib.pyplot as plt, os\nplt.plot([1]); plt.savefig('mine.svg'.replace('svg', 'png')); os.chdir('/tmp'); print(plt.rcParams['backend'], plt.get_backend())"),
		"chart elsewhere":     with("import os; os.chdir('/tmp')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show(); plt.plot([2, 1])\nprint(os.listdir('/work'))"),
		"chart of a child":    with("import os\nif os.fork() == 0:\n    import matplotlib.pyplot as plt; plt.plot([1, 2]); raise SystemExit\nos.wait()\nimport matplotlib.pyplot as plt\nplt.plot([2, 1])\nif os.fork() == 0: plt.figure(); plt.plot([1, 2, 4]); raise SystemExit\nos.wait(); print(os.listdir('.'))"),
		"pandas":              with("import pandas as pd, numpy as np\ndf = pd.DataFrame({'g': list('abab'), 'x': np.arange(4.)})\nprint(df.groupby('g').describe(), df.to_json(), np.show_config.__name__, np.geterr(), np.get_printoptions(), pd.options.display.width)\ndf['y'] = df.x / 0\nprint(np.log(-1.), df)\nnp.array([1]) / 0"),
		"scipy":               with("import scipy.stats, scipy.optimize\nprint(scipy.stats.norm.cdf(1), scipy.optimize.brentq(lambda x: x * x - 2, 0, 2))"),
		"sympy":               with("from sympy import *\nimport mpmath, sys\nx, y = symbols('x y')\nprint(integrate(sin(x)**2, x), solve([x + y - 2, x - y], x, y), limit(sin(x)/x, x, 0), N(pi, 30), Dummy('d'), Dummy._count, mpmath.mp, sys.flags, srepr(x))\nprint(latex(x / y), pretty(x**2), sympify('z + 1'), lambdify(x, x + 1)(1))"),
	}
	for _, name := range namesInShort(0, 4, programs) {
		program := programs[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			sameColdAndPreloaded(t, p, program, func() { awaitPreloaded(t, p) })
		})
	}
}

// sameColdAndPreloaded runs a program in a sandbox of its own and in one in which its interpreter waits, and
// compares all that is seen of it.
func sameColdAndPreloaded(t *testing.T, p *podman.Sandboxes, program sandbox.Program, await func()) {
	t.Helper()
	type result struct {
		Status         job.Status
		ExitCode       int
		Signal         string
		Stdout, Stderr string
		Artifacts      []string
		Compiled       job.Compile // without its time
	}
	of := func(sandboxes *podman.Sandboxes) (result, sandbox.Outcome) {
		sink := &kept{keepBytes: true}
		o, err := sandboxes.Run(t.Context(), program, sink)
		if err != nil {
			t.Fatal(err)
		}
		r := result{o.Status, o.ExitCode, o.Signal, sink.stdout.String(), address.ReplaceAllString(sink.stderr.String(), "0x…"), nil, job.Compile{}}
		if o.Compile != nil {
			r.Compiled = job.Compile{ExitCode: o.Compile.ExitCode, Output: o.Compile.Output}
		}
		for _, a := range sink.artifacts {
			r.Artifacts = append(r.Artifacts, fmt.Sprintf("%s %d %s", a.name, a.size, a.sha256))
		}
		return r, o
	}
	cold, _ := of(suite.podman)
	for range 100 {
		await()
		warm, o := of(p)
		if !o.Preloaded { // another took it in the meantime
			continue
		}
		if diff := cmp.Diff(cold, warm); diff != "" {
			t.Errorf("cold (-) and preloaded (+) differ:\n%s", diff)
		}
		return
	}
	t.Error("it was never preloaded, in a hundred tries")
}

// TestPreloadedDiffers is the list, in runtimes/README.md, of what a program can tell.
func TestPreloadedDiffers(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, "differs", 1)
	source := `
import sys, os, time, resource, gc
print('numpy' in sys.modules, gc.get_freeze_count() > 0)
print('GLOVEBOX_PRELOAD' in open('/proc/self/environ').read(), open('/proc/self/cmdline').read().split('\0')[2:-1])
print(resource.getrlimit(resource.RLIMIT_CPU)[0] > 62, resource.getrlimit(resource.RLIMIT_NPROC)[0], len([n for n in os.listdir('/proc') if n.isdigit()]), 'GLOVEBOX_PRELOAD' in os.environ, sys.argv[1:])
os.environ['MPLBACKEND'] = 'svg'
import matplotlib
print(matplotlib.rcParams['backend'].lower())
import random, numpy
print(random.random(), numpy.random.rand(), hash('a'))
print(int(time.process_time() * 1000))
`
	run := func(sandboxes *podman.Sandboxes) (string, string) {
		sink := &kept{}
		o, err := sandboxes.Run(t.Context(), program(source, asJobOf(pythonRuntime(t)), command("python3", "main.py", "arg"), limits(job.Limits{CPUMS: 60_000})), sink)
		if err != nil || o.Status != job.Succeeded {
			t.Fatalf("got %+v, %v: %s", o, err, sink.stderr.String())
		}
		lines := strings.SplitAfter(sink.stdout.String(), "\n")
		own, err := strconv.ParseInt(strings.TrimSpace(lines[5]), 10, 64) // the CPU time that the process sees, ms
		if err != nil {
			t.Fatal(err)
		}
		switch uncounted := own - o.Usage.CPUMS; {
		case sandboxes == p && (!o.Preloaded || uncounted < 200 || o.Usage.MemoryPeakBytes < 100<<20):
			t.Errorf("got %+v, process_time %d ms, want it preloaded, without the CPU time of that and with its memory", o, own)
		case sandboxes != p && uncounted > 50:
			t.Errorf("got %+v, process_time %d ms, want all of it counted", o, own)
		}
		return strings.Join(lines[:4], ""), lines[4]
	}
	cold, _ := run(suite.podman)
	if want := "False False\nFalse ['arg']\nFalse 63 2 False ['arg']\nsvg\n"; cold != want {
		t.Errorf("cold: got %q, want %q", cold, want)
	}
	var seeds []string
	for range 2 {
		awaitPreloaded(t, p)
		warm, seed := run(p)
		if want := "True True\nTrue []\nTrue 63 3 False ['arg']\nagg\n"; warm != want {
			t.Errorf("preloaded: got %q, want %q", warm, want)
		}
		seeds = append(seeds, seed)
	}
	if seeds[0] == seeds[1] {
		t.Errorf("two programs have the same random numbers: %s", seeds[0])
	}
}
