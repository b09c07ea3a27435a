package podman_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// step is one turn of a session.
type step struct {
	code  string
	files []sandbox.File
	wall  time.Duration // defaults to a minute
	// interruptAt is what the turn prints before it is interrupted; "": it isn't.
	interruptAt string
	// restartAt is what it prints before its interpreter is ended; "": it isn't.
	restartAt string
	on        func() // called when it prints
	in        sandbox.Context
	beside    map[string]int
}

// turned is what became of a step.
type turned struct {
	sandbox.TurnOutcome
	*turnSink
}

// turnSink keeps what a turn makes, and interrupts it when it has printed what it is to print first.
type turnSink struct {
	kept
	interruptAt string
	interrupt   chan struct{}
	restartAt   string
	restart     chan struct{}
	on          func()
	count       int64 // bytes of stdout
	shown       bytes.Buffer
}

func (k *turnSink) Stdout(p []byte) error {
	if k.on != nil {
		k.on()
		k.on = nil
	}
	if k.count += int64(len(p)); k.count > 1<<20 {
		return nil
	}
	k.stdout.Write(p)
	if k.interruptAt != "" && bytes.Contains(k.stdout.Bytes(), []byte(k.interruptAt)) {
		k.interruptAt = ""
		close(k.interrupt)
	}
	if k.restartAt != "" && bytes.Contains(k.stdout.Bytes(), []byte(k.restartAt)) {
		k.restartAt = ""
		close(k.restart)
	}
	return nil
}

// steps are a session's turns.
type steps struct {
	todo    []step
	current *turnSink
	done    []turned
}

func (s *steps) Next(context.Context) (sandbox.Turn, bool, error) {
	if len(s.done) == len(s.todo) {
		return sandbox.Turn{}, false, nil
	}
	t := s.todo[len(s.done)]
	if t.wall == 0 {
		t.wall = time.Minute
	}
	s.current = &turnSink{kept: kept{keepBytes: true}, interruptAt: t.interruptAt, restartAt: t.restartAt, on: t.on, interrupt: make(chan struct{}), restart: make(chan struct{})}
	return sandbox.Turn{
		Files: t.files, Code: []byte(t.code), Wall: t.wall, Interrupt: s.current.interrupt, Restart: s.current.restart, Context: t.in, Contexts: t.beside, Sink: s.current,
	}, true, nil
}

func (s *steps) Ended(_ context.Context, o sandbox.TurnOutcome) error {
	s.done = append(s.done, turned{o, s.current})
	return nil
}

// sessionOf is a session of the runtime with the default limits.
func sessionOf(tb testing.TB, name string) sandbox.Program {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup(name)
	if !ok || r.Session == nil {
		tb.Fatalf("there is no runtime %s that has sessions", name)
	}
	return sandbox.Program{
		JobID: "test", Epoch: 1, Image: r.Image(), Command: r.Session, Env: r.Env, Limits: ample.Filled(r.Limits),
		Interpreter: &sandbox.File{Name: r.File, Content: r.SessionCode},
	}
}

// turns has the steps executed in one session, in a sandbox of its own.
func turns(tb testing.TB, p sandbox.Program, todo ...step) []turned {
	tb.Helper()
	done, _ := turnsIn(tb, open(tb), p, todo...)
	return done
}

func turnsIn(tb testing.TB, sandboxes *podman.Sandboxes, p sandbox.Program, todo ...step) ([]turned, sandbox.Outcome) {
	tb.Helper()
	s := &steps{todo: todo}
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	p.Turns = s
	var outside kept
	o, err := sandboxes.Run(ctx, p, &outside)
	if err != nil || o.Lost {
		tb.Fatalf("lost %v, %v, after %d turns; %s", o.Lost, err, len(s.done), outside.stderr.String())
	}
	if len(s.done) != len(todo) {
		tb.Fatalf("%d turns have ended, want %d", len(s.done), len(todo))
	}
	return s.done, o
}

// want is what a step comes to.
type want struct {
	stdout string
	status job.Status
	code   int
	stderr string // a part of it
	lost   bool
	// others are the other contexts that were lost, each with a space before it.
	others string
}

func check(tb testing.TB, got []turned, wanted ...want) {
	tb.Helper()
	for i, w := range wanted {
		g := got[i]
		if w.status == "" {
			w.status = job.Succeeded
		}
		others := ""
		for _, name := range g.LostContexts {
			others += " " + name
		}
		if others != w.others {
			tb.Errorf("turn %d: lost the contexts %q, want %q", i+1, others, w.others)
		}
		if g.stdout.String() != w.stdout || g.Status != w.status || g.ExitCode != w.code || g.StateLost != w.lost || !strings.Contains(g.stderr.String(), w.stderr) {
			tb.Errorf("turn %d: %s, exit code %d, lost %v, stdout %q, stderr %q; want %+v", i+1, g.Status, g.ExitCode, g.StateLost, g.stdout.String(), g.stderr.String(), w)
		}
	}
}

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

// TestTurnsFiles: the first turn has the files that the session brings, which are sent only when they change.
func TestTurnsFiles(t *testing.T) {
	p := sessionOf(t, "python")
	p.Files = []sandbox.File{{Name: "in.txt", Content: []byte("in")}, {Name: "dir/other.txt", Content: []byte("other")}}
	got := turns(t, p, step{code: "import os, shutil; print(open('in.txt').read())"}, step{code: "os.link('in.txt', 'also'); os.remove('also'); print('more', file=open('in.txt', 'a')); os.symlink('in.txt', 'link')"},
		step{code: "n = open('dir/other.txt', 'w').write('new')"}, step{code: "shutil.rmtree('dir'); os.remove('in.txt'); os.remove('link')"})
	check(t, got, want{stdout: "in\n"}, want{}, want{}, want{})
	for i, names := range []string{"", "in.txt", "dir/other.txt", ""} {
		if got[i].names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, got[i].names(), names)
		}
	}
	if s := got[1].Skipped; len(s) != 1 || s[0].Name != "link" || got[1].SkippedTotal != 1 {
		t.Errorf("skipped %+v, %d in all, want the link", s, got[1].SkippedTotal)
	}
}

// TestTurnsGiven: a turn's files are there before its code, in the place of what has their names, and are sent only when the code
// changes them. What can't be made is said, and the code is not executed. Links lead nowhere that the code could not write itself.
func TestTurnsGiven(t *testing.T) {
	given := func(name, content string) []sandbox.File {
		return []sandbox.File{{Name: name, Content: []byte(content)}}
	}
	large := []sandbox.File{{Name: "large", Size: 40 << 20, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, 40<<20)), nil
	}}}
	p := sessionOf(t, "python")
	p.Limits.DiskMB, p.Limits.FileMB = 32, 64
	todo := []step{
		{files: given("d/in.txt", "one"), code: "import os; print(open('d/in.txt').read())"},
		{files: given("d/in.txt", "two"), code: "x = open('d/in.txt').read(); print(x)"},
		{files: append(given("d/in.txt", "three"), given("large", "old")...)},
		{files: given("e.txt", ""), code: "print(open('d/in.txt').read(), x, os.path.getsize('e.txt'), file=open('e.txt', 'w'))"},
		{files: large, code: "print('never')"},
		{code: "os.path.getsize('large'), os.remove('large')"},
		{files: given("d", "x"), code: "print('never')"},
		{files: given("e.txt/x", "x"), code: "print('never')"},
		{code: "os.symlink('/proc/1', 'agent'); os.symlink('/etc', 'etc'); os.symlink('/tmp/out', 'out'); os.mkfifo('pipe'); os.symlink('round', 'round')"},
		{files: given("agent/environ", "x"), code: "print('never')"},
		{files: given("etc/passwd", "x"), code: "print('never')"},
		{files: given("round/x", "x"), code: "print('never')"},
		{files: given("out", "mine"), code: "print(open('out').read(), os.path.islink('out'), os.path.exists('/tmp/out'))"},
		{files: given("pipe", "mine"), code: "print(open('pipe').read())"},
		{files: append(given("f1", "1"), given("f2", "2")...), code: "os.mkdir('locked', 0o500)"},
		{files: given("locked/f3", "x"), code: "print('never')"},
		{code: "print(open('f1').read(), open('f2').read(), x)"},
	}
	refused := want{status: job.Failed, code: 1, stderr: "glovebox: "}
	got := turns(t, p, todo...)
	check(t, got,
		want{stdout: "one\n"}, want{stdout: "two\n"}, want{}, want{},
		want{status: job.Failed, code: 1, stderr: "limits.disk_mb); large is empty now"}, want{stdout: "(0, None)\n"}, refused, refused,
		want{}, refused, refused, refused, want{stdout: "mine False False\n"}, want{stdout: "mine\n"},
		want{}, refused, want{stdout: "1 2 two\n"},
	)
	for i, g := range got {
		names := ""
		if i == 3 {
			names = "e.txt"
		}
		if g.names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, g.names(), names)
		}
	}
	if got[3].artifacts[0].bytes != "three two 0\n" {
		t.Errorf("got %q", got[3].artifacts[0].bytes)
	}
	node := turns(t, sessionOf(t, "node"), step{files: given("a.txt", "one")}, step{files: given("a.txt", "two"), code: "require('fs').readFileSync('a.txt', 'utf8')"})
	check(t, node, want{}, want{stdout: "'two'\n"})
	prepared := preloaded(t, "turns-given", 1)
	awaitPreloaded(t, prepared)
	first, o := turnsIn(t, prepared, sessionOf(t, "python"), step{files: given("a.txt", "one"), code: "import os; print(open('a.txt').read(), os.listdir())"})
	if check(t, first, want{stdout: "one ['a.txt']\n"}); !o.Preloaded {
		t.Error("the session was not prepared")
	}
}

// zeros are bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// BenchmarkTurns is what a turn costs beside its code, in a session that has done nothing for a moment: the median.
func BenchmarkTurns(b *testing.B) {
	for _, runtime := range []string{"python", "node", "typescript", "bash"} {
		for name, pauseBytes := range map[string]int64{"": 0, "/pausable": 1 << 30} {
			b.Run(runtime+name, func(b *testing.B) {
				sandboxes := open(b)
				if pauseBytes > 0 {
					sandboxes = withPauses(b, "bench-"+runtime, pauseBytes)
				}
				p := sessionOf(b, runtime)
				s := &timed{}
				for range b.N + 1 {
					s.todo = append(s.todo, step{code: cmp.Or(map[string]string{"bash": "echo 2"}[runtime], "1 + 1")})
				}
				p.Turns = s
				if o, err := sandboxes.Run(b.Context(), p, &kept{}); err != nil || o.Lost {
					b.Fatal(err)
				}
				took := slices.Sorted(slices.Values(s.took[1:]))
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/turn")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// timed is steps with a moment before each, and how long each took.
type timed struct {
	steps
	began time.Time
	took  []time.Duration
}

func (s *timed) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	<-time.After(30 * time.Millisecond)
	s.began = time.Now()
	return s.steps.Next(ctx)
}

func (s *timed) Ended(ctx context.Context, o sandbox.TurnOutcome) error {
	s.took = append(s.took, time.Since(s.began))
	return s.steps.Ended(ctx, o)
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
