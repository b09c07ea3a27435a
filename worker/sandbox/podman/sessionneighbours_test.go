package podman_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// leaves has a session leave its name wherever another one could come across it, and hold what others could use up.
const leaves = `
import ctypes, os, socket, subprocess, threading, time
met = []
def serve(s):
    s.listen()
    while True:
        met.append(s.accept()[1])
def at(family, address):
    s = socket.socket(family)
    s.bind(address)
    threading.Thread(target=serve, args=(s,), daemon=True).start()
at(socket.AF_INET, ('0.0.0.0', 5555))
at(socket.AF_INET6, ('::', 5556))
at(socket.AF_UNIX, '\0' + NAME)
at(socket.AF_UNIX, '/tmp/' + NAME + '.sock')
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('0.0.0.0', 5557))
libc = ctypes.CDLL(None, use_errno=True)
shm = libc.shmget(0x676c6f76, 4096, 0o1666); sem = libc.semget(0x676c6f77, 1, 0o1666)
for directory in ('/tmp', '/dev/shm', '/work', '/var/tmp', '/run', '/home'):
    try: open(f'{directory}/{NAME}', 'w').write(NAME)
    except OSError: pass
os.environ[NAME] = NAME
child = subprocess.Popen(['sleep', '1000'], env={NAME: NAME}, start_new_session=True)
named = subprocess.Popen(['python3', '-c', 'import time; time.sleep(1000)', NAME], start_new_session=True)
`

// looks returns what a session finds of another's name, by every way.
const looks = `
import ctypes, glob, os, signal, socket, subprocess
def look(name):
    found = []
    def tries(what, do):
        try:
            if do(): found.append(what)
        except (OSError, ValueError):
            pass
    def connects(family, address):
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(address)
            return True
    for host in ('127.0.0.1', '127.0.0.2', '0.0.0.0', socket.gethostname(), '10.0.2.2', '10.0.2.3', '10.0.2.15', '10.0.2.100'):
        tries(f'tcp {host}', lambda: connects(socket.AF_INET, (host, 5555)))
    tries('tcp ::1', lambda: connects(socket.AF_INET6, ('::1', 5556)))
    tries('abstract socket', lambda: connects(socket.AF_UNIX, '\0' + name))
    for path in [d + '/' + name for d in ('/tmp', '/dev/shm', '/work', '/var/tmp', '/run', '/home')] + glob.glob('/proc/*/root/tmp/' + name) + glob.glob('/proc/*/cwd/' + name):
        tries(path, lambda: os.path.lexists(path))
    tries('socket file', lambda: connects(socket.AF_UNIX, '/tmp/' + name + '.sock'))
    libc = ctypes.CDLL(None)
    tries('shared memory', lambda: libc.shmget(0x676c6f76, 4096, 0) >= 0)
    tries('semaphore', lambda: libc.semget(0x676c6f77, 1, 0) >= 0)
    for path in ['/proc/net/unix', '/proc/net/tcp', '/proc/net/tcp6', '/proc/net/udp', '/proc/self/mountinfo', '/proc/sysvipc/shm', '/etc/hostname', '/etc/hosts'] + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):
        if path.startswith('/proc/%d/' % os.getpid()): continue
        tries(path.replace('/proc/', '').lstrip('0123456789') if path[6].isdigit() else path, lambda: name.encode() in open(path, 'rb').read() or 'net/tcp' in path and b':15B3' in open(path, 'rb').read())
    return sorted(set(found))
`

// TestSessionNeighbours: of two sessions side by side, each with its own tenant, none comes across the other: not by sockets, files, processes, shared memory or names. What one takes, ends or binds the other doesn't notice.
func TestSessionNeighbours(t *testing.T) {
	t.Parallel()
	name := "neighbour-" + job.NewID("a")
	ready, looked := make(chan struct{}), make(chan struct{})
	owner := &steps{todo: []step{
		{code: "NAME = " + quoted(name) + leaves + looks + "\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)", wall: 5 * time.Minute, on: func() { close(ready) }},
		{code: "len(met), child.poll(), named.poll(), sorted(os.listdir('/work')) == [NAME], signal.SIGTERM in signal.sigpending()"},
		{code: "print('\\n'.join(look(NAME)))"},
	}}
	other := sessionOf(t, "python")
	other.JobID = "other-1"
	go func() { // the owner executes meanwhile
		defer close(looked)
		<-ready
		got := turns(t, other,
			step{code: looks + "look(" + quoted(name) + ")"},
			step{code: "x = 1"},
			step{code: `
import os, signal, socket, ctypes
s = socket.socket(); s.bind(('0.0.0.0', 5555)); s.listen()
u = socket.socket(socket.AF_UNIX); u.bind('\0' + ` + quoted(name) + `); u.listen()
ctypes.CDLL(None).shmget(0x676c6f76, 4096, 0o3666) >= 0`},
			step{code: "import os; os.system('kill -9 -1')"},
		)
		check(t, got[:3], want{stdout: "[]\n"}, want{}, want{stdout: "True\n"})
		if got[3].Status != job.Failed || !got[3].StateLost {
			t.Errorf("got %+v", got[3].TurnOutcome)
		}
		close(owner.current.interrupt)
	}()
	p := sessionOf(t, "python")
	p.JobID, p.Turns = "owner-1", owner
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if o, err := open(t).Run(ctx, p, &kept{}); err != nil || o.Lost {
		t.Fatalf("lost %v, %v", o.Lost, err)
	}
	<-looked
	check(t, owner.done[:2], want{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"}, want{stdout: "(0, None, None, True, False)\n"})
	// What the other one looked for is there to be found.
	for _, place := range []string{"tcp 127.0.0.1", "tcp ::1", "abstract socket", "socket file", "shared memory", "semaphore", "/tmp/" + name, "/dev/shm/" + name, "/work/" + name, "/cmdline", "/environ", "/proc/net/unix", "/proc/net/tcp"} {
		if !strings.Contains(owner.done[2].stdout.String(), place+"\n") {
			t.Errorf("the owner itself doesn't find %s: %s", place, owner.done[2].stdout.String())
		}
	}
}

func quoted(s string) string { return "'" + s + "'" }
