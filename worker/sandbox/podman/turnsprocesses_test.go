package podman_test

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

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
	t.Parallel()
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
	t.Parallel()
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
