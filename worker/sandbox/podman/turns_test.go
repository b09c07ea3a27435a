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

// TestTurnsCommand: an interpreter that can't be started is each turn's failure.
func TestTurnsCommand(t *testing.T) {
	t.Parallel()
	p := sessionOf(t, "python")
	p.Command = []string{"nosuchcommand"}
	missing := want{status: job.Failed, code: 127, lost: true, stderr: "nosuchcommand: command not found"}
	check(t, turns(t, p, step{code: "1"}, step{code: "1"}), missing, missing)
}

// TestTurnsSandboxKilled: a session whose sandbox ends while it waits for a turn is told at once.
func TestTurnsSandboxKilled(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
