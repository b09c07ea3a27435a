package podman_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// abuse is an attack that begins when it prints "on", and what becomes of it.
type abuse struct {
	name    string
	program sandbox.Program
	might   []job.Status // job.Succeeded, where there is none
	stdout  string       // exactly, behind "on", unless it is endless
	endless bool
	names   string // of the artifacts
	// inSession is stdout in a session, where that differs.
	inSession string
	// fills says that its files hold its memory, from then on.
	fills bool
}

// attack is a Python program with call's names that prints "on" first.
func attack(source string, l job.Limits) sandbox.Program {
	return program(call+"import mmap, sys, threading\nos.write(1, b'on\\n')\n"+source, limits(l))
}

func abuses(t *testing.T) []abuse {
	t.Helper()
	timedOut, outOfMemory := []job.Status{job.TimedOut}, []job.Status{job.OutOfMemory}
	short := job.Limits{WallMS: 20_000, CPUMS: 60_000}
	small := job.Limits{MemoryMB: 64, WallMS: 60_000}
	forged := "E\x00\x00\x00\x03xyzG\x00\x00\x00\x02{}M\x00\x00\x00\x13{\"skipped_total\":0}"
	return []abuse{
		{name: "fork bomb", program: bash("echo on; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60", limits(short)), might: []job.Status{job.TimedOut, job.Failed}},
		{name: "thread bomb", program: attack(`
while True:
    try: threading.Thread(target=time.sleep, args=(99,)).start()
    except RuntimeError: time.sleep(0.01)
`, short), might: timedOut},
		{name: "memory bomb of one process", program: attack("x = bytearray(1 << 40)", small), might: outOfMemory},
		{name: "memory bomb of many processes", program: attack("for i in range(30):\n  if os.fork() == 0: break\nx = bytearray(20 << 20); time.sleep(60)", small), might: outOfMemory},
		{name: "memory bomb in tmpfs", program: attack("f = os.open('/dev/shm/x', os.O_CREAT | os.O_WRONLY)\ng = os.open('/tmp/x', os.O_CREAT | os.O_WRONLY)\nwhile True:\n  for h in (f, g):\n    try: os.write(h, bytes(1 << 20))\n    except OSError: pass", small), might: outOfMemory, fills: true},
		{name: "memory bomb in shared memory", program: attack("keep = []\nwhile True: keep.append(mmap.mmap(-1, 4 << 20)); keep[-1].write(b'x' * (4 << 20))", small), might: outOfMemory},
		{name: "a full disk", program: attack("for path in ('/work/x', '/tmp/x'):\n  f = os.open(path, os.O_CREAT | os.O_WRONLY)\n  try:\n    while True: os.write(f, bytes(1 << 16))\n  except OSError as e: print(path, errno.errorcode[e.errno], flush=True)\n  os.unlink(path)",
			job.Limits{DiskMB: 8, FileMB: 16}), stdout: "/work/x ENOSPC\n/tmp/x ENOSPC\n"},
		{name: "files without end", program: attack("n = 0\nwhile True: os.mknod(f'/tmp/{n}'); n += 1", job.Limits{MemoryMB: 32, WallMS: 20_000}), might: []job.Status{job.TimedOut, job.OutOfMemory}, fills: true},
		{name: "flood of both streams", program: bash("echo on; yes & yes >&2", limits(job.Limits{OutputKB: 512})), might: []job.Status{job.OutputLimitExceeded}, endless: true},
		{name: "endless sleep", program: bash("echo on; trap '' TERM INT HUP XCPU; while :; do sleep 1; done", limits(short)), might: timedOut},
		{name: "signals to the agent", program: attack("print({call('kill', 1, s) for s in range(1, 65)} | {call('tgkill', 1, 1, 9)})", job.Limits{}), stdout: "{'EPERM'}\n"},
		{name: "tracing the agent", program: attack("print([call('ptrace', r, 1, 0, 0) for r in (16, 0x4206)], attempt(os.open, '/proc/1/mem', os.O_RDWR))", job.Limits{}), stdout: "['EPERM', 'EPERM'] EACCES\n"},
		{
			name: "the agent's descriptors", program: attack("print([attempt(os.open, f'/proc/1/fd/{n}', os.O_WRONLY) for n in range(3)], sorted({attempt(os.write, n, b'G\\0\\0\\0\\2{}') for n in range(3, 1024)}))", job.Limits{OpenFiles: 1024}), stdout: "['EACCES', 'EACCES', 'EACCES'] ['EBADF']\n",
			inSession: "['EACCES', 'EACCES', 'EACCES'] ['EBADF', 'ok']\n",
		}, // the socket on which it says how code ended
		{name: "forged frames", program: attack("os.write(1, bytes.fromhex('"+hex.EncodeToString([]byte(forged))+"'))", job.Limits{}), stdout: forged},
		{name: "another job's files, memory and sockets", program: attack(`
print([p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())], [p for p in ("/work/secret", "/tmp/secret", "/dev/shm/secret") if os.path.exists(p)])
print(call("shmget", 42, 4096, 0), call("semget", 42, 1, 0), call("msgget", 42, 0), attempt(socket.socket(socket.AF_UNIX).connect, "\0neighbour"), attempt(socket.create_connection, ("127.0.0.1", 4242)))
`, job.Limits{}), stdout: "[] []\nENOENT ENOENT ENOENT ECONNREFUSED ECONNREFUSED\n"},
		{name: "writing to /proc and /sys", program: attack(`
opened = []
for top in ("/proc/sys", "/proc/1", "/proc/sysrq-trigger", "/proc/kcore", "/sys"):
    for at, dirs, files in [(top, [], [""])] if os.path.isfile(top) else os.walk(top):
        opened += [p for p in (os.path.join(at, f).rstrip("/") for f in files) if attempt(os.open, p, os.O_WRONLY) == "ok"]
print(opened)
`, job.Limits{WallMS: 60_000}), stdout: "[]\n"},
		{name: "mounts", program: attack(`
print([call("mount", s, b"/tmp", f, flags, 0) for s, f, flags in ((b"x", b"tmpfs", 0), (b"proc", b"proc", 0), (b"/", b"", 4096), (b"", b"", 1 << 20))], call("umount2", b"/tmp", 2), call("pivot_root", b"/tmp", b"/tmp") if hasattr(libc, "pivot_root") else "EPERM")
`, job.Limits{}), stdout: "['EPERM', 'EPERM', 'EPERM', 'EPERM'] EPERM EPERM\n"},
		{name: "set-uid binaries", program: bash("echo on; cp /usr/bin/id /tmp/id; chmod 6755 /tmp/id; /tmp/id -u; stat -c %a /usr/bin/su; su -c 'id -u' </dev/null 2>/dev/null || echo no", limits(job.Limits{WallMS: 60_000})), stdout: "1000\n4755\nno\n"},
		{name: "raw sockets", program: attack("print([attempt(socket.socket, f, k, p) for f, k, p in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 0x300), (17, 2, 0x300), (16, 3, 9))])", job.Limits{}), stdout: "['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPROTONOSUPPORT']\n"},
		{name: "connections to the host", program: attack("addresses = "+addresses(t)+`
got = {}
for host, ports in addresses.items():
    for port in ports:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(family, kind); s.settimeout(3)
            r = attempt(lambda: (s.connect((host, port)), s.send(b"x")))
            if r == "ok" and kind == socket.SOCK_DGRAM: # nobody has to be there for that
                try: r = s.recv(10)
                except OSError as e: r = errno.errorcode[e.errno] if e.errno else "no answer"
            if r not in ("ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "EHOSTUNREACH"): got[host, port, kind] = r
print(got)
`, job.Limits{WallMS: 60_000}), stdout: "{}\n"},
		{name: "daemons", program: attack(`
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        for s in range(1, 32):
            if s not in (9, 19): signal.signal(s, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(20); open("/work/late", "w")
        os._exit(0)
os._exit(0)
`, job.Limits{WallMS: 60_000})},
		// int 0x80 is i386's way into the kernel; 1 << 30 is x32's.
		{name: "io_uring, 32-bit calls", program: attack(`
print("io_uring", call("syscall", 425, 8, 0), "x32", call("syscall", (1 << 30) + 39))
sys.stdout.flush()
if os.uname().machine == "x86_64" and os.fork() == 0:
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(bytes.fromhex("b814000000cd80c3")) # getpid
    if ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))() == os.getpid(): os.write(1, b"32 bits work")
    os._exit(0)
`, job.Limits{}), stdout: "io_uring ENOSYS x32 ENOSYS\n"},
		{name: "files made at once", program: attack("print(call('fallocate', os.memfd_create('x'), 0, ctypes.c_long(0), ctypes.c_long(1 << 30)))", job.Limits{FileMB: 1024}), stdout: "ENOTSUP\n"},
		{name: "closed descriptors", program: attack("os.closerange(0, 1024); time.sleep(0.3); os._exit(0)", job.Limits{})},
		{name: "binary garbage", program: bash("echo on; head -c 500000 /dev/urandom; head -c 500000 /dev/urandom >&2"), endless: true},
		{name: "stdin that nobody reads", program: bash("echo on; exit 0", func(p *sandbox.Program) { p.Stdin = make([]byte, 900_000) })},
		{name: "paths that change while they are collected", program: bash("echo on; mkdir a; echo x >a/x; echo y >y; (while :; do mv a b; ln -s /etc a; rm a; mv b a; done) & sleep 0.5; kill $!; wait; [ -d a ] || { rm -f a; mv b a; }; (while :; do mv a b; ln -s /etc a; rm a; mv b a; done) 2>/dev/null & exit 0"), names: "…"},
	}
}

// addresses lists, as Python, the host's addresses and, of each, the ports that matter: a
// listener's of this test's, Redis's, S3's, and what clouds tell their machines.
func addresses(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Errorf("a job reached %s of the host", c.LocalAddr())
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); accepting.Wait() })
	hosts, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"'169.254.169.254': [80]", "'fd00:ec2::254': [80]", "'8.8.8.8': [53]"}
	for _, h := range hosts {
		if n, ok := h.(*net.IPNet); ok {
			list = append(list, fmt.Sprintf("'%s': [%d, 22, 80, 6379, 7070]", n.IP, l.Addr().(*net.TCPAddr).Port))
		}
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// neighbour has secrets, says that it runs, and, when its sink lets it, does some of
// everything that a job may.
const neighbour = call + `
keep = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET)]
keep[0].bind("\0neighbour"); keep[1].bind(("127.0.0.1", 4242))
for s in keep: s.listen()
for f in ("/work/secret", "/tmp/secret", "/dev/shm/secret"): open(f, "w").write("secret")
for name in ("shmget", "semget"): assert getattr(libc, name)(42, 1, 0o1666) >= 0
assert libc.msgget(42, 0o1666) >= 0
os.write(1, b"." * (1 << 20))
x = bytearray(20 << 20)
if os.fork() == 0: os._exit(0)
os.wait()
print(sum(range(1_000_000)))
`

// TestAbuse: whatever a job does, it ends as its limits say, a job beside it on the same
// worker ends as if it were alone, and nothing is left of either.
func TestAbuse(t *testing.T) {
	t.Parallel()
	attackAll(t, abuses(t), (*suspects).attack)
}

// attackAll makes each attack in a fresh sandbox, and looks for what is left of all of them.
func attackAll(t *testing.T, attacks []abuse, attack func(*suspects, *testing.T, abuse)) {
	t.Helper()
	s := &suspects{podman: open(t), filter: func(jobID string) string { return "label=run.glovebox.job=" + jobID }}
	t.Cleanup(func() { nothingLeft(t, s.traces) }) // after the last of them
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			attack(s, t, a)
		})
	}
}

// TestAbuseWarm: so it does in sandboxes that were started before it came.
func TestAbuseWarm(t *testing.T) { //nolint:tparallel // its attacks go one after the other: each waits for two sandboxes
	t.Parallel()
	abuseWaiting(t, 0, func(claimed *slog.Logger) *podman.Sandboxes { return warm(t, "abuse", 2, claimed) }, (*podman.Sandboxes).WarmOf)
}

// TestAbuseRestored: so it does in sandboxes that went on from a snapshot, with an interpreter that waits.
func TestAbuseRestored(t *testing.T) { //nolint:tparallel // its attacks go one after the other: each waits for two sandboxes
	t.Parallel()
	abuseWaiting(t, 2, func(claimed *slog.Logger) *podman.Sandboxes { return preloaded(t, fromSnapshots+"abuse", 2, claimed) }, (*podman.Sandboxes).CurrentOf)
}

// abuseWaiting makes the attacks one after the other, each when two sandboxes wait as count has it. In short it
// makes each fourth, beginning with one.
func abuseWaiting(t *testing.T, begin int, start func(claimed *slog.Logger) *podman.Sandboxes, count func(p *podman.Sandboxes, image string) int) {
	t.Helper()
	var claimed claims
	s := suspects{filter: claimed.filter}
	t.Cleanup(func() { nothingLeft(t, s.traces) }) // after Close: containers get other sandboxes until then
	p := start(slog.New(&claimed))
	s.podman = p
	first := program("")
	first.Image = suite.image
	if _, err := p.Run(t.Context(), first, &kept{}); err != nil { // from now on there are two
		t.Fatal(err)
	}
	attacks := inShort(begin, 4, abuses(t)) // each is made in a fresh sandbox anyway
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			gbtest.Eventually(t, "two sandboxes wait", func() bool { return count(p, suite.image) >= 2 })
			s.attack(t, a)
		})
	}
	if n := claimed.count(); n < 2*len(attacks)-4 { // but those with a disk_mb of their own
		t.Errorf("%d sandboxes were warm", n)
	}
}

// suspects are the sandboxes that attacks came from, and those beside them.
type suspects struct {
	podman *podman.Sandboxes
	filter func(jobID string) string // finds a job's container, for podman ps

	mu     sync.Mutex
	traces []trace
}

// attack makes one, with a job beside it.
func (s *suspects) attack(t *testing.T, a abuse) {
	t.Helper()
	mine := &onSink{}
	var o sandbox.Outcome
	s.beside(t, func(ctx context.Context, jobID string, on func()) {
		a.program.Image, a.program.JobID, mine.on = suite.image, jobID, on
		var err error
		if o, err = s.podman.Run(ctx, a.program, mine); err != nil {
			t.Errorf("%v\n%s", err, mine.stderr.String())
		}
		if mine.on != nil {
			t.Errorf("the attack never began: %+v\n%s", o, mine.stderr.String())
			on()
		}
	})
	a.check(t, o.Status, a.stdout, &mine.kept)
}

// check looks at what became of the attack.
func (a abuse) check(t *testing.T, status job.Status, want string, k *kept) {
	t.Helper()
	if len(a.might) == 0 {
		a.might = []job.Status{job.Succeeded}
	}
	stdout := strings.TrimPrefix(k.stdout.String(), "on\n")
	if !slices.Contains(a.might, status) || !a.endless && stdout != want {
		t.Errorf("got %s\n%.500q\nstderr %.1000s\nwant %v\n%.500q", status, stdout, k.stderr.String(), a.might, want)
	}
	for _, kept := range k.artifacts {
		if a.names == "" && status == job.Succeeded || kept.name != "y" && kept.name != "a/x" && kept.name != "b/x" && a.names != "" {
			t.Errorf("artifact %s", kept.name)
		}
	}
}

// attacksMade counts the attacks of all tests: these run at the same time, and find containers by their job.
var attacksMade atomic.Int32

// beside runs a job while the attack is made, which is to call on once it has begun.
func (s *suspects) beside(t *testing.T, attack func(ctx context.Context, jobID string, on func())) {
	t.Helper()
	n := attacksMade.Add(1)
	jobs := [2]string{fmt.Sprintf("neighbour-%d", n), fmt.Sprintf("abuse-%d", n)}
	beside := program(neighbour, limits(job.Limits{OutputKB: 2048, WallMS: 600_000}))
	beside.Image, beside.JobID = suite.image, jobs[0]
	sink := &gateSink{reached: make(chan struct{}), open: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), gbtest.Patience)
	defer cancel()
	var first sandbox.Outcome
	var firstErr error
	over := make(chan struct{})
	go func() {
		defer close(over)
		first, firstErr = s.podman.Run(ctx, beside, sink)
	}()
	select {
	case <-sink.reached:
	case <-over:
		t.Fatalf("the neighbour: %+v, %v\n%s", first, firstErr, sink.stderr.String())
	}
	attack(ctx, jobs[1], func() {
		defer close(sink.open) // both run now
		s.mu.Lock()
		defer s.mu.Unlock()
		s.traces = append(s.traces, traceOf(t, jobs[0], s.filter(jobs[0])), traceOf(t, jobs[1], s.filter(jobs[1])))
		if len(s.traces) == 2 { // what is looked for is there, and can be seen
			for _, kind := range []string{"podman ps", "process", "mount", "file", "link"} {
				if seen := leftOf(t, s.traces[:1]); !strings.Contains(strings.Join(seen, "\n"), jobs[0]+": "+kind) {
					t.Errorf("no %s of a sandbox that runs, but %s", kind, strings.Join(seen, "\n"))
				}
			}
		}
	})
	<-over
	if firstErr != nil || first.Status != job.Succeeded || !strings.HasSuffix(sink.stdout.String(), ".499999500000\n") || !slices.Equal([]string{"secret"}, strings.Fields(sink.names())) {
		t.Errorf("the neighbour: %+v, %v, artifacts %s\n%.100s\n%s", first, firstErr, sink.names(), strings.TrimLeft(sink.stdout.String(), "."), sink.stderr.String())
	}
}

// onSink keeps everything, and calls on when its program says that it begins.
type onSink struct {
	kept
	on func()
}

func (s *onSink) Stdout(p []byte) error {
	if s.on != nil {
		s.on()
		s.on = nil
	}
	return s.kept.Stdout(p)
}
