package podman_test

import (
	"maps"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// contextsOf is a session of Python with one more interpreter of it, by the language "other".
func contextsOf(tb testing.TB) sandbox.Program {
	tb.Helper()
	p := sessionOf(tb, "python")
	p.Languages = map[string][]string{"other": p.Command, "broken": {"/no/such/program"}}
	return p
}

// among are the contexts of a session as a turn of each has them.
func among(generations map[string]int, name string) (in sandbox.Context, beside map[string]int) {
	beside = maps.Clone(generations)
	delete(beside, name)
	in = sandbox.Context{Name: name, Generation: generations[name]}
	if name != job.MainContext {
		in.Language = "other"
	}
	return in, beside
}

// at has the step executed in the context of that name, where all have their first generation.
func at(name string, s step) step {
	s.in, s.beside = among(map[string]int{job.MainContext: 1, "a": 1, "b": 1}, name)
	return s
}

// after has it executed where the contexts have these generations.
func after(generations map[string]int, name string, s step) step {
	s.in, s.beside = among(generations, name)
	return s
}

// TestContexts: interpreters side by side have their own names, the same files, and one standing still.
func TestContexts(t *testing.T) {
	t.Parallel()
	elsewhere := at("b", step{code: "import os; os.getcwd(), 'x' in globals()"})
	elsewhere.in.Directory = "d/e"
	broken := at("a", step{code: "1"})
	broken.in.Name, broken.in.Language, broken.beside = "c", "broken", map[string]int{job.MainContext: 1, "a": 1, "b": 1}
	got := turns(t, contextsOf(t),
		at("main", step{code: "x = 1; open('f', 'w').write('of main')"}),
		at("a", step{code: "print('x' in globals(), open('f').read()); x = 2"}),
		at("main", step{code: "x"}),
		at("a", step{code: "x"}),
		elsewhere,
		at("a", step{code: "print('begun', flush=True)\nwhile True: pass", interruptAt: "begun"}),
		at("a", step{code: "x"}),
		broken,
		at("main", step{code: `import threading, time
def count():
    global n
    while True: n += ticks.write(b'.'); time.sleep(0.001)
n, ticks = 0, open('/tmp/ticks', 'wb', 0)
threading.Thread(target=count, daemon=True).start()`}),
		at("a", step{code: `import os, time
began = os.path.getsize('/tmp/ticks')
while os.path.getsize('/tmp/ticks') < began + 10: time.sleep(0.01)`}), // it goes on meanwhile
		at("main", step{code: "n >= 10"}),
	)
	check(t, got,
		want{stdout: "7\n"}, want{stdout: "False of main\n"}, want{stdout: "1\n"}, want{stdout: "2\n"}, want{stdout: "('/work/d/e', False)\n"},
		want{stdout: "begun\n", status: job.Canceled, code: 130}, want{stdout: "2\n"},
		want{status: job.Failed, code: 127, lost: true, stderr: "/no/such/program: command not found"},
		want{}, want{}, want{stdout: "True\n"})
}

// TestContextsEnd: an interpreter that ends takes its own state and what it has started, wherever that went, and nothing else.
func TestContextsEnd(t *testing.T) {
	t.Parallel()
	const daemon = `import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('/tmp/daemon', 'w').write(str(os.getpid()))
        while True: time.sleep(1)
    os._exit(0)
while not os.path.exists('/tmp/daemon') or not open('/tmp/daemon').read(): time.sleep(0.01)
`
	const alive = "os.path.exists('/proc/' + open('/tmp/daemon').read())"
	second := map[string]int{job.MainContext: 1, "a": 2, "b": 1}
	mainSecond := map[string]int{job.MainContext: 2, "a": 2, "b": 1}
	without := map[string]int{job.MainContext: 2, "a": 2}
	got := turns(t, contextsOf(t),
		at("main", step{code: "import os; x = 1"}),
		at("b", step{code: "import os; x = 3"}),
		at("a", step{code: daemon + "x = 2; " + alive}),
		at("main", step{code: alive}),
		at("a", step{code: "os._exit(3)"}),
		after(second, "main", step{code: "x, " + alive}),
		after(second, "a", step{code: "import os; 'x' in globals()"}),
		after(second, "main", step{code: "print('begun', flush=True)\nwhile True: pass", restartAt: "begun"}),
		after(mainSecond, "main", step{code: "'x' in globals()"}),
		after(mainSecond, "b", step{code: "x"}),
		after(mainSecond, "a", step{code: "x = 5; os.remove('/tmp/daemon')\n" + daemon + alive}),
		after(mainSecond, "main", step{code: "x = 4; import os; " + alive}),
		// a is started anew, and b is no more
		after(map[string]int{job.MainContext: 2, "a": 3}, "main", step{code: "x, " + alive}),
		after(map[string]int{job.MainContext: 2, "a": 3}, "a", step{code: "'x' in globals()"}),
		after(without, "main", step{code: "x, len([p for p in os.listdir('/proc') if p.isdigit()])"}),
	)
	check(t, got,
		want{}, want{}, want{stdout: "True\n"}, want{stdout: "True\n"}, want{status: job.Failed, code: 3, lost: true},
		want{stdout: "(1, False)\n"}, want{stdout: "False\n"},
		want{stdout: "begun\n", status: job.Canceled, code: 137, lost: true}, want{stdout: "False\n"}, want{stdout: "3\n"},
		want{stdout: "True\n"}, want{stdout: "True\n"}, want{stdout: "(4, False)\n"}, want{stdout: "False\n"}, want{stdout: "(4, 2)\n"})
	if !got[7].Interrupted || got[7].Signal != "SIGKILL" {
		t.Errorf("a restart is no interrupt: %+v", got[7].TurnOutcome)
	}
}

// TestContextsHostile: what one context does to others is told with the turn in which it was done.
func TestContextsHostile(t *testing.T) {
	t.Parallel()
	const find = "import os\nself, parent = os.getpid(), os.getppid()\nothers = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, self)]\n"
	for name, c := range map[string]struct {
		todo []step
		want []want
	}{
		"kills the others": {
			[]step{
				at("main", step{code: "x = 1"}), at("b", step{code: "x = 3"}), at("a", step{code: find + "x = 2\nfor p in others: os.kill(p, 9)"}), at("a", step{code: "x"}),
				after(map[string]int{job.MainContext: 2, "a": 1, "b": 2}, "main", step{code: "'x' in globals()"}),
			},
			[]want{{}, {}, {others: " b main"}, {stdout: "2\n"}, {stdout: "False\n"}},
		},
		"kills all": {
			[]step{at("main", step{code: "x = 1"}), at("a", step{code: "import os; os.kill(-1, 9); os.kill(os.getpid(), 9)"}), after(map[string]int{job.MainContext: 2, "a": 2}, "main", step{code: "'x' in globals()"})},
			[]want{{}, {status: job.Failed, code: 137, lost: true, others: " main"}, {stdout: "False\n"}},
		},
		"kills it later": {
			[]step{
				at("main", step{code: "x = 1"}), at("b", step{code: "1"}), at("a", step{code: find + "import threading, time\ndef late():\n    while not os.path.exists('b'): time.sleep(0.1)\n    for p in others: os.kill(p, 9)\nthreading.Thread(target=late).start()"}),
				at("b", step{code: "open('b', 'w').close(); import time; time.sleep(60)"}),
			},
			[]want{{}, {stdout: "1\n"}, {}, {status: job.Failed, code: 137, lost: true, others: " main"}},
		},
		"memory": {
			[]step{at("main", step{code: "x = 1"}), at("a", step{code: "y = []\nwhile True: y.append(bytearray(1 << 20))"}), after(map[string]int{job.MainContext: 1, "a": 2}, "main", step{code: "x"})},
			[]want{{}, {status: job.OutOfMemory, code: 137, lost: true}, {stdout: "1\n"}},
		},
		"another's memory": {
			[]step{
				at("main", step{code: "y = bytearray(200 << 20); y[::4096] = b'x' * len(y[::4096])"}), at("a", step{code: "x = 1"}), at("a", step{code: "y = bytearray(200 << 20); y[::4096] = b'x' * len(y[::4096])"}),
				after(map[string]int{job.MainContext: 1, "a": 2}, "main", step{code: "len(y) >> 20"}),
			},
			[]want{{}, {}, {status: job.OutOfMemory, code: 137, lost: true}, {stdout: "200\n"}},
		},
		"starts without end": {
			[]step{
				at("main", step{code: "x = 1"}), at("a", step{code: "import subprocess\nfor n in range(10**9):\n    if n == 10: print('begun', flush=True)\n    try: subprocess.Popen(['setsid', 'sh', '-c', 'while :; do sleep 0.001 & done'], stderr=subprocess.DEVNULL)\n    except OSError: pass", restartAt: "begun"}), after(map[string]int{job.MainContext: 1, "a": 2}, "main", step{code: "x"}),
				after(map[string]int{job.MainContext: 1, "a": 2}, "a", step{code: "2"}),
			},
			[]want{{}, {stdout: "begun\n", status: job.Canceled, code: 137, lost: true}, {stdout: "1\n"}, {stdout: "2\n"}},
		},
		"a directory that is a link": {
			[]step{
				at("main", step{code: "import os; os.symlink('/root', 'd'); os.symlink('/tmp', 'e')"}),
				func() step { s := at("a", step{code: "1"}); s.in.Directory = "d"; return s }(),
				func() step { s := at("b", step{code: "import os; os.getcwd()"}); s.in.Directory = "e"; return s }(),
			},
			[]want{{}, {status: job.Failed, code: 1, stderr: "can't be made"}, {stdout: "'/tmp'\n"}},
		},
		"a directory of its own": {
			[]step{
				at("main", step{code: "import os; os.mkdir('d', 0o700); os.mkdir('e'); os.chmod('e', 0o400); x = 1"}),
				func() step { s := at("a", step{code: "import os; os.getcwd()"}); s.in.Directory = "d"; return s }(),
				func() step { s := at("b", step{code: "1"}); s.in.Directory = "e"; return s }(),
				after(map[string]int{job.MainContext: 1, "a": 1, "b": 2}, "main", step{code: "x"}),
			},
			[]want{{}, {stdout: "'/work/d'\n"}, {status: job.Failed, code: 126, lost: true, stderr: "can't be entered: permission denied"}, {stdout: "1\n"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, turns(t, contextsOf(t), c.todo...), c.want...)
		})
	}
}

// TestContextsPrepared: a prepared process is the interpreter of main, also where another context has the first turn, and ends without it.
func TestContextsPrepared(t *testing.T) {
	t.Parallel()
	p := preloaded(t, "contexts-prepared", 1)
	awaitPreloaded(t, p)
	program := contextsOf(t)
	program.Interpreter = sessionOf(t, "python").Interpreter
	second := map[string]int{job.MainContext: 2, "a": 1, "b": 1}
	got, _ := turnsIn(t, p, program,
		at("a", step{code: "import sys; x = 2; 'pandas' in sys.modules"}),
		at("main", step{code: "import sys; x = 1; 'pandas' in sys.modules"}),
		at("a", step{code: "x"}),
		after(second, "a", step{code: "x"}),
		after(second, "main", step{code: "import sys; 'x' in globals(), 'pandas' in sys.modules"}),
		after(second, "a", step{code: "x"}),
	)
	check(t, got, want{stdout: "False\n"}, want{stdout: "True\n"}, want{stdout: "2\n"}, want{stdout: "2\n"}, want{stdout: "(False, False)\n"}, want{stdout: "2\n"})
}

// TestRuntimeContexts: each runtime that TestCases tests has an interpreter of each of its languages, beside the others and on the same files.
func TestRuntimeContexts(t *testing.T) {
	t.Parallel()
	open(t)
	for _, r := range testedRuntimes(t) {
		if len(r.Contexts) == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			p := sessionOf(t, r.Name)
			p.Languages = r.Contexts
			write := map[string]string{"python": "x = 1; f = open('python', 'w'); f.close()", "javascript": "x = 1; require('fs').writeFileSync('javascript', '')", "bash": "x=1; : >bash"}
			read := map[string]string{
				"python": "import os; x, os.path.exists('javascript')", "javascript": "[x, require('fs').existsSync('python')].join()", "bash": "[ -e python ] && echo $x",
			}
			printed := map[string]string{"python": "(1, True)\n", "javascript": "'1,true'\n", "bash": "1\n"}
			generations := map[string]int{}
			for _, language := range r.Languages() {
				generations[language] = 1
			}
			delete(generations, r.Language)
			generations[job.MainContext] = 1
			var todo []step
			var wanted []want
			for _, code := range []map[string]string{write, read} {
				for n, language := range r.Languages() {
					name := language
					if n == 0 {
						name = job.MainContext
					}
					s := after(generations, name, step{code: code[language]})
					if s.in.Language = language; n == 0 {
						s.in.Language = ""
					}
					w := want{}
					if code[language] == read[language] {
						w.stdout = printed[language]
					}
					todo, wanted = append(todo, s), append(wanted, w)
				}
			}
			check(t, turns(t, p, todo...), wanted...)
		})
	}
}
