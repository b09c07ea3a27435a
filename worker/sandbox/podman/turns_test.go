package podman_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestTurns: what one turn leaves the next one has, in each runtime with sessions.
func TestTurns(t *testing.T) {
	for runtime, c := range map[string]struct {
		todo []step
		want []want
	}{
		"python": {
			[]step{
				{code: "import os\nx = 20\ndef f(): return x + 1"},
				{code: "print('first')\nf() * 2"},
				{code: "x = None\nx"},
				{code: "def g():\n    raise ValueError('no')\ng()"},
				{code: "1 +"},
				{code: "input()"},
				{code: "import sys; sys.exit(3)"},
				{code: "open('a.txt', 'w').write('one'); os.makedirs('d'); os.chdir('d')"},
				{code: "os.getcwd()"},
				{code: "open('/work/b.txt', 'w').write('two'); len(open('/work/a.txt').read())"},
				{code: ""},
				{code: "print('begun', flush=True)\nwhile True: pass", interruptAt: "begun"},
				{code: "f.__name__"},
				{code: "import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '1000'])", interruptAt: "begun"},
				{code: "os.getpid() > 1"},
				{code: "import asyncio\nasync def late(n):\n    await asyncio.sleep(0.01)\n    return n\nt = asyncio.create_task(late(1))\nawait late(0)"},
				{code: "await t, await late(2), 3"},
				{code: "asyncio.run(late(4))"},
				{code: "print('begun', flush=True)\nawait asyncio.sleep(1000)", interruptAt: "begun"},
				{code: "async with asyncio.timeout(9): print(await late(5))"},
				{code: "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: print('child')"},
				{code: "pid > 0"},
				{code: "unwaited = os.fork()\nif unwaited == 0: os._exit(0)"},
				{code: "os.waitpid(unwaited, 0)[0] == unwaited"},
				{code: "class Mute:\n    def write(self, text): pass\nsys.stdout = Mute()\nprint('unheard')"},
				{code: "print('heard', file=sys.__stdout__); sys.stdout = sys.__stdout__; 6"},
				{code: "del sys.stdout"},
				{code: "sys.stdout = sys.__stdout__; 7"},
			},
			[]want{
				{},
				{stdout: "first\n42\n"},
				{},
				{status: job.Failed, code: 1, stderr: "in g\n    raise ValueError('no')\n"},
				{status: job.Failed, code: 1, stderr: "SyntaxError"},
				{status: job.Failed, code: 1, stderr: "EOFError"},
				{status: job.Failed, code: 3},
				{},
				{stdout: "'/work/d'\n"},
				{stdout: "3\n"},
				{},
				{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"},
				{stdout: "'f'\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130},
				{stdout: "True\n"},
				{stdout: "0\n"},
				{stdout: "(1, 2, 3)\n"},
				{stdout: "4\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"},
				{stdout: "5\n"},
				{stdout: "child\n"},
				{stdout: "True\n"},
				{},
				{stdout: "True\n"},
				{},
				{stdout: "heard\n6\n"},
				{},
				{stdout: "7\n"},
			},
		},
		"node": {
			[]step{
				{code: "const x = 20; function f() { return x + 1 }"},
				{code: "console.log('first'); f() * 2"},
				{code: "const x = 3"},
				{code: "await new Promise((r) => setTimeout(r, 10)); x"},
				{code: "({a: [1, 'b']})"},
				{code: "function g() { throw new TypeError('no') }\ng()"},
				{code: "1 +"},
				{code: "require('fs').writeFileSync('a.txt', 'one')"},
				{code: "console.log('begun'); while (true);", interruptAt: "begun"},
				{code: "x"},
				{code: "await null; console.log('begun'); await new Promise(() => setTimeout(() => {}, 1e6))", interruptAt: "begun"},
				{code: "require('v8').setFlagsFromString('--expose-gc'); for (let i = 0; i < 9; i++) { await null; vm.runInNewContext('gc')() }"},
				{code: "x + 1"},
				{code: "let n = 0; const every = setInterval(() => n++, 1)"},
				{code: "while (n < 2) await new Promise((r) => setTimeout(r, 1)); clearInterval(every); n > 1"},
				{code: "typeof (await import('fs')).readFileSync"},
				{code: "setTimeout(() => { throw new Error('later') }, 1); await new Promise((r) => setTimeout(r, 100)); 'goes on'"},
				{code: "console.log('x'.repeat(300000)); console.error('y'.repeat(300000))"},
				{code: "Promise.reject(new Error('boom')); 1"},
				{code: "2"},
				{code: "({ then() { console.log('called') } })"},
				{code: "Promise.resolve(3)"},
				{code: "await null; console.log('begun'); new Promise(() => setTimeout(() => {}, 1e6))", interruptAt: "begun"},
				{code: "throw { [Symbol.for('nodejs.util.inspect.custom')]() { throw { [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } } } }"},
				{code: "Promise = setImmediate = undefined; 4"},
				{code: "5"},
			},
			[]want{
				{},
				{stdout: "first\n42\n"},
				{},
				{stdout: "3\n"},
				{stdout: "{ a: [ 1, 'b' ] }\n"},
				{status: job.Failed, code: 1, stderr: "TypeError: no"},
				{status: job.Failed, code: 1, stderr: "SyntaxError"},
				{},
				{stdout: "begun\n", status: job.Canceled, code: 130},
				{stdout: "3\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130},
				{},
				{stdout: "4\n"},
				{},
				{stdout: "true\n"},
				{stdout: "'function'\n"},
				{stdout: "'goes on'\n", stderr: "later"},
				{stdout: strings.Repeat("x", 300000) + "\n", stderr: strings.Repeat("y", 300000)},
				{stdout: "1\n", stderr: "boom"},
				{stdout: "2\n"},
				{stdout: "{ then: [Function: then] }\n"},
				{stdout: "3\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130},
				{status: job.Failed, code: 1, stderr: "Uncaught an error that can't be described"},
				{stdout: "4\n"},
				{stdout: "5\n"},
			},
		},
	} {
		t.Run(runtime, func(t *testing.T) {
			got := turns(t, sessionOf(t, runtime), c.todo...)
			check(t, got, c.want...)
			for i, g := range got {
				if g.Interrupted != (c.todo[i].interruptAt != "") {
					t.Errorf("turn %d: interrupted %v", i+1, g.Interrupted)
				}
				names := ""
				for _, name := range []string{"a.txt", "b.txt"} {
					if strings.Contains(c.todo[i].code, name+"', 'w'") || strings.Contains(c.todo[i].code, "writeFileSync('"+name) {
						names = name
					}
				}
				if g.names() != names {
					t.Errorf("turn %d sent the files %q, want %q", i+1, g.names(), names)
				}
			}
		})
	}
}

// findToken finds what the interpreter is to say when the turn has ended.
const findToken = `
import sys
frame = sys._getframe()
while 'token' not in frame.f_locals: frame = frame.f_back
token = frame.f_locals['token']
`

// TestTurnsHostile: what a session does to its interpreter, its control socket or its limits costs its own state, which
// is told, and never the files or a turn without an end.
func TestTurnsHostile(t *testing.T) {
	for name, c := range map[string]struct {
		todo []step
		want []want
	}{
		"killed": {
			[]step{{code: "x = 1; open('a', 'w').write('kept')"}, {code: "import os; os.kill(os.getpid(), 9)"}, {code: "print(open('a').read(), 'x' in globals())"}},
			[]want{{stdout: "4\n"}, {status: job.Failed, code: 137, lost: true}, {stdout: "kept False\n"}},
		},
		"kills all": {
			[]step{{code: "import os; os.system('kill -9 -1')"}, {code: "1"}},
			[]want{{status: job.Failed, code: 137, lost: true}, {stdout: "1\n"}},
		},
		"exits": {
			[]step{{code: "import os; os._exit(7)"}, {code: "1"}},
			[]want{{status: job.Failed, code: 7, lost: true}, {stdout: "1\n"}},
		},
		"closes all": {
			[]step{{code: "import os; os.closerange(0, 100)"}, {code: "1"}},
			[]want{{status: job.Failed, code: 120, lost: true}, {stdout: "1\n"}},
		},
		"closes all and goes on": {
			[]step{{code: "import os; os.closerange(0, 100)\nwhile True: pass", wall: 3 * time.Second}, {code: "1"}},
			[]want{{status: job.TimedOut, code: 124, lost: true, stderr: "Execution timed out"}, {stdout: "1\n"}},
		},
		"time": {
			[]step{{code: "x = 1"}, {code: "while True: pass", wall: time.Second}, {code: "x"}},
			[]want{{}, {status: job.TimedOut, code: 124, stderr: "KeyboardInterrupt"}, {stdout: "1\n"}},
		},
		"deaf": {
			[]step{{code: "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass", wall: time.Second}, {code: "1"}},
			[]want{{status: job.TimedOut, code: 124, lost: true}, {stdout: "1\n"}},
		},
		"stopped": {
			[]step{{code: "import os; os.kill(os.getpid(), 19)", wall: time.Second}, {code: "1"}},
			[]want{{status: job.TimedOut, code: 124, stderr: "KeyboardInterrupt"}, {stdout: "1\n"}},
		},
		"memory": {
			[]step{{code: "x = 1"}, {code: "y = []\nwhile True: y.append(bytearray(1 << 20))"}, {code: "'x' in globals()"}},
			[]want{{}, {status: job.OutOfMemory, code: 137, lost: true}, {stdout: "False\n"}},
		},
		"forged words": {
			[]step{
				{code: "import os\nfor word in (b'9\\0', b'x 9\\0', b'a' * 1000, b'\\0', b' 0\\0'): os.write(5, word)\nNone"},
				{code: "1"},
				{code: findToken + "os.write(5, token + b' 999\\0' + token + b' -1\\0' + token + b' 9\\0')\nimport time; time.sleep(4); print('late')"},
				{code: "2"},
				{code: "3"},
			},
			[]want{{}, {stdout: "1\n"}, {status: job.Failed, code: 9}, {stdout: "late\n2\n"}, {stdout: "3\n"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, turns(t, sessionOf(t, "python"), c.todo...), c.want...)
		})
	}
}

// TestTurnsMemoryAtOnce: what code takes in too short a time for it to be noticed meanwhile is noticed as it ends, and is not the next one's fault.
func TestTurnsMemoryAtOnce(t *testing.T) {
	p := sessionOf(t, "python")
	p.Limits.MemoryMB = 64
	var todo []step
	var wanted []want
	for range 5 {
		todo = append(todo, step{code: "y = b'x' * (60 << 20)"}, step{code: "1"})
		wanted = append(wanted, want{status: job.OutOfMemory, code: 137, lost: true}, want{stdout: "1\n"})
	}
	todo = append(todo, step{code: "try:\n    while True: pass\nexcept KeyboardInterrupt: y = b'x' * (60 << 20)", wall: time.Second}, step{code: "1"})
	wanted = append(wanted, want{status: job.TimedOut, code: 124, lost: true}, want{stdout: "1\n"})
	check(t, turns(t, p, todo...), wanted...)
}

// TestTurnsOutput: a turn that prints without end is ended, and the next one gets nothing of it.
func TestTurnsOutput(t *testing.T) {
	got := turns(t, sessionOf(t, "python"), step{code: "x = 1"}, step{code: "while True: print('a' * 100000)"}, step{code: "x"})
	if g := got[1]; g.Status != job.OutputLimitExceeded || g.count > sessionOf(t, "python").Limits.OutputKB<<10 || g.StateLost {
		t.Errorf("a turn that prints without end: %s with %d bytes, lost %v", g.Status, g.count, g.StateLost)
	}
	check(t, got[2:], want{stdout: "1\n"})
}

// TestTurnsStandStill: what a turn leaves running stands still until the next one.
func TestTurnsStandStill(t *testing.T) {
	p := sessionOf(t, "python")
	s := &paused{between: time.Second, steps: steps{todo: []step{
		{code: `import os, subprocess, time
beats = """
import time
with open('/tmp/beats', 'w', buffering=1) as f:
    while True: print(time.time(), file=f)
"""
child = subprocess.Popen(['python3', '-c', beats], start_new_session=True)
while not os.path.exists('/tmp/beats') or os.path.getsize('/tmp/beats') < 100: pass`},
		{code: `size = os.path.getsize('/tmp/beats')
while os.path.getsize('/tmp/beats') == size: pass
at = [float(line) for line in open('/tmp/beats').read().split('\n')[:-1]]
max(b - a for a, b in zip(at, at[1:])) >= 0.9`},
		{code: "child.kill(); child.wait()"},
	}}}
	p.Turns = s
	o, err := open(t).Run(t.Context(), p, &kept{})
	if err != nil || o.Lost {
		t.Fatal(err)
	}
	check(t, s.done, want{}, want{stdout: "True\n"}, want{stdout: "-9\n"})
}

// TestTurnsStarting: programs that are being started as a turn ends do not cost it its state. A child that is stopped between vfork and exec keeps
// its parent from stopping. The more threads start one, the more often they have started another when they are let go on together.
func TestTurnsStarting(t *testing.T) {
	todo := []step{{code: `import subprocess, threading, time
def start():
    while True: subprocess.run(['true'])
for _ in range(6): threading.Thread(target=start, daemon=True).start()`}}
	wanted := []want{{}}
	for range 60 {
		todo, wanted = append(todo, step{code: "time.sleep(0.01); 1"}), append(wanted, want{stdout: "1\n"})
	}
	check(t, turns(t, sessionOf(t, "python"), todo...), wanted...)
}

// TestTurnsStirred: a process that has a timer or a file send it the signal to go on is ended soon after the turn, with the session's state,
// and the next turn is told.
func TestTurnsStirred(t *testing.T) {
	t.Parallel()
	const libc = "import ctypes, fcntl, os, signal, struct\nlibc = ctypes.CDLL(None, use_errno=True)\nhalf = struct.pack('qqqq', 0, 500_000_000, 0, 500_000_000)\n"
	for name, arm := range map[string]string{
		"timer": `timer = ctypes.c_void_p()
assert libc.timer_create(1, struct.pack('qii40x', 0, signal.SIGCONT, 0), ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, half, None) == 0`,
		"file": `fd = libc.timerfd_create(1, 0)
assert libc.timerfd_settime(fd, 0, half, None) == 0
fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(fd, fcntl.F_SETSIG, int(signal.SIGCONT))
fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sessionOf(t, "python")
			s := &paused{between: 24 * time.Second, steps: steps{todo: []step{
				{code: libc + "if os.fork() == 0:\n    " + strings.ReplaceAll(arm, "\n", "\n    ") + "\n    open('/tmp/armed', 'w')\n    while True: pass\nwhile not os.path.exists('/tmp/armed'): pass"},
				{code: "print('never')"},
				{code: "'libc' in globals()"},
			}}}
			p.Turns = s
			if o, err := open(t).Run(t.Context(), p, &kept{}); err != nil || o.Lost {
				t.Fatal(err)
			}
			check(t, s.done, want{}, want{status: job.Failed, code: 1, lost: true, stderr: "ran between two executions"}, want{stdout: "False\n"})
			// It could have had 23 s; it has what it took until it was looked at.
			if used := s.done[1].Usage.CPUMS; used == 0 || used > 16_000 {
				t.Errorf("it used %d ms of CPU time between two turns", used)
			}
		})
	}
}

// TestTurnsHoles: files are compared with those of the turn before by what they hold, up to limits.disk_mb of them. What is beyond it is sent again: a file with
// holes can be read for hours.
func TestTurnsHoles(t *testing.T) {
	p := sessionOf(t, "python")
	p.Limits.DiskMB, p.Limits.ArtifactMB, p.Limits.FileMB = 8, 8, 8
	hole := func(name string) step {
		return step{code: "with open('" + name + "', 'wb') as f: n = f.truncate(6 << 20)"}
	}
	got := turns(t, p, hole("a"), hole("b"), step{})
	for i, names := range []string{"a", "b", "b"} {
		if got[i].names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, got[i].names(), names)
		}
	}
}

// TestTurnsRevived: processes that let each other go on cost a turn its state, at most, and never its end.
func TestTurnsRevived(t *testing.T) {
	got := turns(t, sessionOf(t, "python"), step{code: `import os, signal
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            try: os.kill(-1, signal.SIGCONT)
            except OSError: pass`}, step{code: "1"}, step{code: "2"})
	for i, stdout := range []string{"", "1\n", "2\n"} {
		if g := got[i]; g.Status != job.Succeeded || g.stdout.String() != stdout {
			t.Errorf("turn %d: %s, stdout %q, stderr %q; want %q", i+1, g.Status, g.stdout.String(), g.stderr.String(), stdout)
		}
	}
	t.Logf("state lost: %v %v %v", got[0].StateLost, got[1].StateLost, got[2].StateLost)
}

// TestTurnsCommand: an interpreter that can't be started is each turn's failure.
func TestTurnsCommand(t *testing.T) {
	p := sessionOf(t, "python")
	p.Command = []string{"nosuchcommand"}
	missing := want{status: job.Failed, code: 127, lost: true, stderr: "nosuchcommand: command not found"}
	check(t, turns(t, p, step{code: "1"}, step{code: "1"}), missing, missing)
}

// TestTurnsSandboxKilled: a session whose sandbox ends while it waits for a turn is told at once.
func TestTurnsSandboxKilled(t *testing.T) {
	const name = "turns-killed"
	worker := warm(t, name, 0)
	p := sessionOf(t, "python")
	s := &paused{steps: steps{todo: []step{{code: "1"}}}, wait: func(waiting context.Context) error {
		for waiting.Err() == nil {
			for _, id := range containersOf(t, name) { //nolint:contextcheck // the test's own
				_, _ = podmanCLI("kill", id) //nolint:contextcheck // the test's own; one that is being made or removed can't be killed
			}
		}
		return waiting.Err()
	}}
	p.Turns = s
	ctx, cancel := context.WithTimeout(t.Context(), gbtest.Patience)
	defer cancel()
	if o, err := worker.Run(ctx, p, &kept{}); err == nil && !o.Lost || ctx.Err() != nil {
		t.Errorf("got %+v, %v, want that the sandbox was lost", o.Status, err)
	}
}

// paused is steps of a session that is lost, or ended, by what Next says.
type paused struct {
	steps
	wait func(ctx context.Context) error
	// between is how long the second turn is waited for.
	between time.Duration
}

func (p *paused) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	if len(p.done) == len(p.todo) && p.wait != nil {
		return sandbox.Turn{}, false, p.wait(ctx)
	}
	if len(p.done) == 1 {
		<-time.After(p.between)
	}
	return p.steps.Next(ctx)
}

// TestTurnsEnd: a session that waits for a turn ends with its context, at once.
func TestTurnsEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("the session was ended")
	p := sessionOf(t, "python")
	s := &paused{steps: steps{todo: []step{{code: "1"}}}, wait: func(waiting context.Context) error {
		cancel(ended)
		<-waiting.Done()
		return context.Cause(waiting)
	}}
	p.Turns = s
	if _, err := open(t).Run(ctx, p, &kept{}); !errors.Is(err, ended) {
		t.Errorf("got %v, want %v", err, ended)
	}
}

// TestTurnsPrepared: a process that was prepared becomes the interpreter, with what it has imported and nothing else that code could
// tell it by. When that is lost, the next is started as any other.
func TestTurnsPrepared(t *testing.T) {
	t.Parallel()
	p := preloaded(t, "turns-prepared", 1)
	awaitPreloaded(t, p)
	got, o := turnsIn(t, p, sessionOf(t, "python"),
		step{code: "import os, sys\n'pandas' in sys.modules, sys.argv, sys.path[0], os.listdir('/work'), os.listdir('/tmp'), '__file__' in globals()"},
		step{code: "sys.stdin.read(), input.__name__, os.path.realpath('/proc/self/fd/0')"},
		step{code: "import subprocess\nsubprocess.run(['sh', '-c', 'ls /proc/self/fd; cat'], capture_output=True, text=True).stdout"},
		step{code: "def f(): raise ValueError('no')\nf()"},
		step{code: "print('begun', flush=True)\nwhile True: pass", interruptAt: "begun"},
		step{code: "import resource\nresource.getrlimit(resource.RLIMIT_NPROC)[0] < 1000, resource.getrlimit(resource.RLIMIT_CPU)[0] > 100000"},
		step{code: "y = []\nwhile True: y.append(bytearray(1 << 20))"},
		step{code: "import sys, os\n'pandas' in sys.modules, sys.argv, sys.path[0], os.listdir('/work'), 'y' in globals()"},
	)
	check(t, got,
		want{stdout: "(True, [''], '', [], [], False)\n"},
		want{stdout: "('', 'input', '/dev/null')\n"},
		want{stdout: "'0\\n1\\n2\\n3\\n'\n"}, // 3 is the directory itself
		want{status: job.Failed, code: 1, stderr: "<execution 4>\", line 2, in <module>\n    f()"},
		want{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"},
		want{stdout: "(True, True)\n"},
		want{status: job.OutOfMemory, code: 137, lost: true},
		want{stdout: "(False, [''], '', [], False)\n"},
	)
	if !o.Preloaded || got[6].Usage.MemoryPeakBytes < sessionOf(t, "python").Limits.MemoryMB<<20 {
		t.Errorf("got %+v, and a peak of %d", o, got[6].Usage.MemoryPeakBytes)
	}
	if text := got[3].stderr.String(); strings.Contains(text, "main.py") {
		t.Errorf("got %s", text)
	}
}
