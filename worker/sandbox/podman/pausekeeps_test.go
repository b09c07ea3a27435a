package podman_test

import (
	"context"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestPauseKeeps: whatever the kernel keeps for a program is there after a pause, and after another.
func TestPauseKeeps(t *testing.T) {
	p := withPauses(t, "pause-keeps", 4<<30)
	for name, c := range map[string]struct{ code, want string }{
		"network": {`import socket
l = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(l.getsockname()); a, _ = l.accept(); c.send(b'over tcp')
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b'udp', u.getsockname())
six = socket.create_server(('::1', 0), family=socket.AF_INET6)
def check():
    c.send(b'!'); u2 = a.recv(99)[-1:]; v.sendto(b'udp', u.getsockname())
    d = socket.create_connection(l.getsockname()); b, _ = l.accept(); d.send(b'new')
    return u2, u.recv(99), b.recv(3)`, "(b'!', b'udp', b'new')"},
		"threads": {`import threading, time
ts = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(40)]
[t.start() for t in ts]
def check(): return sum(t.is_alive() for t in ts)`, "40"},
		"files": {`import os
for i in range(3000): open('/tmp/%d' % i, 'w').write(str(i))
def check(): return len([n for n in os.listdir('/tmp') if n.isdigit()]), open('/tmp/777').read()`, "(3000, '777')"},
		"descriptors": {
			`import os, mmap, select
p = [os.pipe() for _ in range(40)]
for r, w in p: os.write(w, b'x' * 60000)
m = mmap.mmap(-1, 64 << 20); m[5000:5003] = b'abc'
f = os.memfd_create('m'); os.ftruncate(f, 1 << 25); os.pwrite(f, b'far', 1 << 24)
e = select.epoll(); [e.register(r, select.EPOLLIN) for r, w in p]
d = os.open('gone', os.O_RDWR | os.O_CREAT); os.write(d, b'deleted'); os.unlink('gone')
os.mkfifo('/tmp/fifo'); ff = os.open('/tmp/fifo', os.O_RDWR); os.write(ff, b'fifo')
root = os.open('/', os.O_RDONLY); os.chdir('/tmp'); maps = os.open('/proc/self/maps', os.O_RDONLY); u = os.open('/dev/urandom', os.O_RDONLY)
def check(): return len(e.poll(0)), m[5000:5003], os.pread(f, 3, 1 << 24), os.pread(d, 9, 0), os.read(p[0][0], 3), os.getcwd(), 'tmp' in os.listdir(root), len(os.read(u, 4)), len(os.read(maps, 9))`,
			"(40, b'abc', b'far', b'deleted', b'xxx', '/tmp', True, 4, 9)",
		},
		"processes": {`import subprocess
ps = [subprocess.Popen(['python3', '-c', 'import os, time\nos.setsid()\nwhile True: time.sleep(0.001)']) for _ in range(8)]
z = subprocess.Popen(['true'])
def check(): return [x.poll() for x in ps].count(None)`, "8"},
		"mappings": {`import mmap
areas = [mmap.mmap(-1, 8192) for _ in range(2000)]
[a.__setitem__(0, 1) for a in areas]
def check(): return sum(x[0] for x in areas)`, "2000"},
		"terminal": {`import os, pty
master, slave = pty.openpty(); os.write(slave, b'tty')
def check(): return os.isatty(slave), os.write(slave, b'x')`, "(True, 1)"},
		"random": {`import os, random
random.seed(7); numbers, seen = [], {os.urandom(8)}
def check():
    numbers.append(random.random()); seen.add(os.urandom(8))
    other = random.Random(7)
    return numbers == [other.random() for _ in numbers], len(seen) == len(numbers) + 1`, "(True, True)"},
	} {
		t.Run(name, func(t *testing.T) {
			program := sessionOf(t, "python")
			s := &pausedSteps{steps: steps{todo: []step{{code: c.code}, {code: "check()"}, {code: "check()"}}}, tb: t}
			program.Turns = s
			var outside kept
			if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
				t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
			}
			check(t, s.done, want{}, want{stdout: c.want + "\n"}, want{stdout: c.want + "\n"})
		})
	}
}

// both has the steps executed in a session that is never paused, and in one that is paused before each of them but the first.
func both(t *testing.T, runtime string, limits func(*job.Limits), todo ...step) (plain, paused []turned) {
	t.Helper()
	program := sessionOf(t, runtime)
	if limits != nil {
		limits(&program.Limits)
	}
	plain = turns(t, program, todo...)
	p := withPauses(t, "limits-"+runtime, 4<<30)
	s := &pausedSteps{steps: steps{todo: todo}, tb: t}
	program.Turns = s
	var outside kept
	if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
	}
	if s.resumes != len(todo)-1 {
		t.Errorf("%d resumes, want %d", s.resumes, len(todo)-1)
	}
	return plain, s.done
}

// TestPauseLimits: what bounds a session bounds it after a pause, too.
func TestPauseLimits(t *testing.T) {
	open(t)
	plain, paused := both(
		t, "python", func(l *job.Limits) { l.MemoryMB, l.DiskMB, l.Processes, l.OpenFiles = 200, 16, 20, 64 },
		step{code: "import os, resource, subprocess, threading, time"},
		step{code: "try:\n    bytearray(1 << 40)\nexcept MemoryError: print('address space')"},
		step{code: "try:\n    open('large', 'wb').write(b'x' * (64 << 20))\nexcept OSError as e: print(e.errno)\nos.remove('large')"},
		step{code: "try:\n    open('/tmp/large', 'wb').write(b'x' * (640 << 20))\nexcept (OSError, MemoryError) as e: print(type(e).__name__, getattr(e, 'errno', None))"},
		step{code: "try:\n    os.remove('/tmp/large')\nexcept OSError: pass\nfiles = []\ntry:\n    while True: files.append(open('/dev/null'))\nexcept OSError as e: print(e.errno)\nfiles.clear()"},
		step{code: "[resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith('RLIMIT_')]"},
		step{code: "os.getuid(), os.getgid(), os.getgroups(), open('/proc/self/status').read().split('CapInh')[1].split('Seccomp')[0]"},
		step{code: "try:\n    os.setuid(0)\nexcept OSError as e: print(e.errno)"},
		step{code: "sorted(os.listdir('/')), [l.split()[:3] for l in open('/proc/mounts')]"},
		step{code: "while True: pass", wall: time.Second},
		step{code: "print('x' * (64 << 20))"},
		step{code: "x = bytearray(os.urandom(1 << 20) * 400)"},
		step{code: "print('alive')"},
	)
	for i := range plain {
		a, b := plain[i], paused[i]
		if a.Status != b.Status || a.ExitCode != b.ExitCode || a.Limit != b.Limit || a.StateLost != b.StateLost || a.stdout.String() != b.stdout.String() {
			t.Errorf("turn %d: got %s %d %q %v %.500q %.300q after a pause, %s %d %q %v %.500q without", i,
				b.Status, b.ExitCode, b.Limit, b.StateLost, b.stdout.String(), b.stderr.String(), a.Status, a.ExitCode, a.Limit, a.StateLost, a.stdout.String())
		}
	}
}

// TestPauseStirred: a session whose processes let themselves go on is paused like any other. It runs no more than it would have, and is found out.
func TestPauseStirred(t *testing.T) {
	t.Parallel() // it mostly waits
	p := withPauses(t, "pause-stirred", 4<<30)
	program := sessionOf(t, "python")
	s := &longPause{pausedSteps{steps: steps{todo: []step{
		{code: `import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    timer = ctypes.c_void_p()
    assert libc.timer_create(1, struct.pack('qii40x', 0, signal.SIGCONT, 0), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, struct.pack('qqqq', 0, 50_000_000, 0, 50_000_000), None) == 0
    open('/tmp/armed', 'w')
    while True: pass
while not os.path.exists('/tmp/armed'): pass`},
		{code: "print('never')"},
		{code: "'libc' in globals()"},
	}}, tb: t}, 24 * time.Second}
	program.Turns = s
	var outside kept
	if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
	}
	check(t, s.done, want{}, want{status: job.Failed, code: 1, lost: true, stderr: "ran between two executions"}, want{stdout: "False\n"})
	if used := s.done[1].Usage.CPUMS; used > 16_000 { // a slow pause and resume are in it
		t.Errorf("it used %d ms of CPU time around a pause", used)
	}
}

// TestPausePreloaded: a session whose interpreter waited preloaded, by itself or from a snapshot, is paused like any other, before its first turn, too.
func TestPausePreloaded(t *testing.T) {
	t.Parallel()
	withAndWithoutSnapshots(t, "sessions"+canPause, 1, func(t *testing.T, p *podman.Sandboxes) {
		t.Helper()
		awaitPreloaded(t, p)
		program := sessionOf(t, "python")
		s := &atOnce{pausedSteps{steps: steps{todo: []step{{code: "import sys; x = 41; 'numpy' in sys.modules"}, {code: "import numpy; x + int(numpy.ones(1)[0])"}, {code: "x"}}}, tb: t}}
		program.Turns = s
		o, err := p.Run(t.Context(), program, &kept{})
		if err != nil || o.Lost || !o.Preloaded {
			t.Fatalf("got %+v, %v, after %d turns", o, err, len(s.done))
		}
		check(t, s.done, want{stdout: "True\n"}, want{stdout: "42\n"}, want{stdout: "41\n"})
		for _, d := range s.done {
			if d.Snapshot != s.done[0].Snapshot {
				t.Errorf("got snapshot %q, then %q", s.done[0].Snapshot, d.Snapshot)
			}
		}
		if s.resumes != 3 {
			t.Errorf("%d resumes, want 3", s.resumes)
		}
	})
}

// atOnce is a session that is paused before its first turn, too.
type atOnce struct{ pausedSteps }

func (s *atOnce) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	if s.pauses == 0 {
		return sandbox.Turn{Pause: true}, true, nil
	}
	if len(s.done) == 0 {
		return s.steps.Next(ctx)
	}
	return s.pausedSteps.Next(ctx)
}
