package podman_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// call is how the programs below reach system calls that Python has no name for.
const call = `
import ctypes, errno, os, signal, socket, array, fcntl, struct, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *a):
    r = getattr(libc, name)(*a)
    return "ok" if r >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(f, *a):
    try:
        f(*a)
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
`

// TestEscape: what an attacker's program tries, and what it gets for it.
func TestEscape(t *testing.T) {
	t.Parallel()
	forged := "E\x00\x00\x00\x03xyzG\x00\x00\x00\x02{}M\x00\x00\x00\x13{\"skipped_total\":0}"
	tests := []struct {
		name    string
		program sandbox.Program
		status  job.Status // job.Succeeded, where it is empty
		stdout  string
		names   string // of the artifacts
		limit   string
		within  time.Duration
	}{
		{name: "new namespaces", program: program(call + `
flags = dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x08000000, uts=0x04000000, cgroup=0x02000000)
clone, clone3 = {"x86_64": (56, 435), "aarch64": (220, 435)}[os.uname().machine]
class args(ctypes.Structure): _fields_ = [("flags", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 10)]
for name, f in flags.items():
    print(name, call("unshare", f), call("syscall", clone, f | signal.SIGCHLD, 0, 0, 0, 0), call("syscall", clone, f | 0x10000000, 0, 0, 0, 0),
        call("syscall", clone3, ctypes.byref(args(f)), 88), call("setns", os.open("/proc/self/ns/user", 0), f))
print([l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")], call("mount", b"x", b"/tmp", b"tmpfs", 0, None))
`), stdout: strings.Join([]string{
			"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "",
		}, " EPERM EPERM EPERM ENOSYS EPERM\n") + "['0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000'] EPERM\n"},
		{name: "the agent in /proc", program: program(call + `
print(sorted({l.split(None, 1)[1].strip() for t in os.listdir("/proc/1/task") for l in open(f"/proc/1/task/{t}/status") if l.startswith(("Uid", "Gid"))}))
print({os.lstat("/proc/1/" + f).st_uid for f in os.listdir("/proc/1")})
for f in ("mem", "maps", "environ", "auxv", "fd", "cwd/x", "root/work", "exe"): print(f, attempt(os.open, "/proc/1/" + f, 0))
for f in ("comm", "oom_score_adj", "uid_map"): print(f, attempt(os.open, "/proc/1/" + f, os.O_WRONLY))
b = ctypes.create_string_buffer(8)
v = struct.pack("PN", ctypes.addressof(b), 8)
print("vm", call("process_vm_readv", 1, v, 1, v, 1, 0), "seize", call("ptrace", 0x4206, 1, 0, 0), "prlimit", call("prlimit", 1, 7, struct.pack("QQ", 1, 1), None),
    "pidfd", call("syscall", 438, libc.syscall(434, 1, 0), 0, 0), "kill", [call("kill", 1, s) for s in (0, 9, 15, 19)])
`), stdout: "['0\\t0\\t0\\t0']\n{0}\nmem EACCES\nmaps EACCES\nenviron EACCES\nauxv EACCES\nfd EACCES\ncwd/x EACCES\nroot/work EACCES\nexe EACCES\n" +
			"comm EACCES\noom_score_adj EACCES\nuid_map EACCES\nvm EPERM seize EPERM prlimit EPERM pidfd EPERM kill ['EPERM', 'EPERM', 'EPERM', 'EPERM']\n"},
		{name: "its own stream's other end", program: program(call + `
print(attempt(os.open, "/dev/tty", os.O_RDWR), os.listdir("/dev/pts"), attempt(fcntl.ioctl, 0, 0x5412, b"x"), attempt(os.open, "/glovebox-agent", os.O_WRONLY),
    [attempt(os.open, f, os.O_WRONLY) for f in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/sys/fs/cgroup/memory/cgroup.procs")])
`), stdout: "ENXIO ['ptmx'] ENOTTY EACCES ['EACCES', 'ENOENT', 'EACCES', 'EACCES']\n"},
		{name: "forged frames", program: program("import os; os.write(1, bytes.fromhex('" + hex.EncodeToString([]byte(forged)) + "'))"), stdout: forged},
		{name: "calls of the kernel", program: program(call + `
for name, number in dict(io_uring_setup=425, move_mount=429, fsopen=430).items(): print(name, call("syscall", number, 8, 0, 0, 0, 0))
for name, *a in (("mount", 0, b"/tmp", b"proc", 0, 0), ("umount2", b"/tmp", 2), ("reboot", 0x4321fedc), ("sethostname", b"x", 1), ("swapon", b"/tmp", 0), ("acct", b"/tmp/x"),
    ("chroot", b"/work"), ("setuid", 0), ("setgroups", 0, 0), ("init_module", 0, 0, b""), ("fanotify_init", 0, 0)): print(name, call(name, *a))
for path in ("/tmp/null", "/work/null", "/dev/shm/null"): print(path, attempt(os.mknod, path, 0o20666, 0x103))
print("clock", attempt(time.clock_settime, time.CLOCK_REALTIME, 0), "oom", attempt(os.open, "/proc/1/oom_score_adj", os.O_WRONLY))
`), stdout: "io_uring_setup ENOSYS\nmove_mount EPERM\nfsopen EPERM\n" +
			"mount EPERM\numount2 EPERM\nreboot EPERM\nsethostname EPERM\nswapon EPERM\nacct EPERM\nchroot EPERM\nsetuid EPERM\nsetgroups EPERM\ninit_module EPERM\nfanotify_init ENOSYS\n" +
			"/tmp/null EPERM\n/work/null EPERM\n/dev/shm/null EPERM\nclock EPERM oom EACCES\n"},
		{name: "places to write", program: program(`
import os
found = []
for top, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if top + d not in ("/proc", "/sys", "/usr")] # /usr is much, and of the same mount as /
    if os.access(top, os.W_OK): found.append(f"{top} {(s := os.statvfs(top)).f_blocks * s.f_frsize >> 20}")
    found += [p for p in (os.path.join(top, f) for f in files) if not os.path.islink(p) and os.access(p, os.W_OK)]
devices = {"/dev/" + d for d in ("full", "fuse", "net/tun", "null", "pts/ptmx", "random", "tty", "urandom", "zero")} # Podman 5 makes them read-only
print(*sorted(set(found) - devices))
`, limits(job.Limits{DiskMB: 5, MemoryMB: 70})), stdout: "/dev/shm 70 /tmp 5 /work 5 /work/main.py\n"},
		{name: "set-uid files", program: bash(`
su -c 'id -u' </dev/null 2>/dev/null; cp /usr/bin/id /tmp/id; chmod 6755 /tmp/id; /tmp/id -u; /tmp/id -g
stat -c %a /usr/bin/su
`), stdout: "1000\n1000\n4755\n"},
		{name: "stops itself", program: program("import os; os.kill(os.getpid(), 19)", limits(job.Limits{WallMS: 300})), status: job.TimedOut},
		// clone's exit signal 0 makes a child that a plain wait does not see.
		{name: "storm of silent forks", program: program(call+`
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
if libc.syscall(clone, 0, 0, 0, 0, 0) == 0:
    os.setsid()
    for i in range(10): libc.syscall(clone, 0, 0, 0, 0, 0)
    while True:
        if libc.syscall(clone, 0, 0, 0, 0, 0) > 0: os._exit(0)
time.sleep(0.2)
`, limits(job.Limits{MemoryMB: 1024})), within: 3 * gbtest.AtOnce},
		{name: "work of children that are gone", program: program(`
import os, time
while True:
    if os.fork() == 0:
        end = time.time() + 0.006 # less than a tick of gVisor's clock
        while time.time() < end: pass
        os._exit(0)
    os.wait()
`, limits(job.Limits{CPUMS: 400})), status: job.TimedOut, limit: "cpu_ms"},
		{name: "processes that trace each other", program: program(call + `
if os.fork() == 0:
    os.setsid()
    v = os.fork()
    if v == 0:
        os.setsid(); libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19); os._exit(0)
    os.waitpid(v, 0); libc.ptrace(0x4200, v, 0, 0x40); libc.ptrace(7, v, 0, 0)
    time.sleep(100)
time.sleep(0.2); print("done")
`), stdout: "done\n", within: 3 * gbtest.AtOnce},
		// No process holds the pipe any more, and no kernel without a collector of such
		// cycles closes it.
		{name: "stdout in flight for ever", program: program(call + `
fcntl.fcntl(1, 1031, 1 << 20)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
for s in (a, b): s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2, a.fileno(), b.fileno()]))])
os.write(1, b"x" * 600_000)
os._exit(0)
`), stdout: strings.Repeat("x", 600_000), within: 3 * gbtest.AtOnce},
		{name: "too many last words", program: program(`
import fcntl, os
fcntl.fcntl(1, 1031, 1 << 20)
os.write(1, b"x" * 900_000)
os._exit(0)
`, limits(job.Limits{OutputKB: 1})), status: job.OutputLimitExceeded, stdout: strings.Repeat("x", 1024)},
		{name: "files of holes", program: program(`
for i in range(32): open(f"{i:02}", "wb").truncate(20 << 20)
`), names: "00 01 02", within: 90 * time.Second},
		{name: "holes that a compile step left", program: bash("echo ok", func(p *sandbox.Program) {
			p.Compile = []string{"python3", "-c", "for i in range(500): open(str(i), 'wb').truncate(64 << 20)"}
		}), stdout: "ok\n", within: 90 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			began := time.Now()
			o, k := run(t, tt.program)
			if tt.status == "" {
				tt.status = job.Succeeded
			}
			if o.Status != tt.status || tt.limit != "" && o.Limit != tt.limit || k.stdout.String() != tt.stdout || tt.names != "" && k.names() != tt.names {
				t.Errorf("got %s %d\n%.3000q\nstderr %.1000s\nartifacts %s\nwant %s\n%.3000q", o.Status, o.ExitCode, k.stdout.String(), k.stderr.String(), k.names(), tt.status, tt.stdout)
			}
			if took := time.Since(began); tt.within > 0 && took > tt.within {
				t.Errorf("it took %v, want at most %v", took, tt.within)
			}
		})
	}
}

// TestMemoryElsewhere: memory that no process has mapped counts too, and where gVisor
// charges nobody for it, the watch from outside sees it.
func TestMemoryElsewhere(t *testing.T) {
	t.Parallel()
	const each = `
for i in range(60):
    try:
        if os.fork() == 0: break
    except OSError: break
keep = []
while True:
    try:
        %s
    except OSError:
        time.sleep(0.1)
`
	compiled := program("x = bytearray(60 << 20)\nimport time; time.sleep(50)", func(p *sandbox.Program) {
		p.Compile = []string{"bash", "-c", "head -c 60M /dev/zero >/dev/shm/x"}
	}, limits(job.Limits{MemoryMB: 96}))
	small := limits(job.Limits{MemoryMB: 64, OpenFiles: 4096, WallMS: 120_000, CPUMS: 1_200_000})
	for name, p := range map[string]sandbox.Program{
		"System V segments": program(call+`
libc.shmat.restype = ctypes.c_void_p
while True:
    p = libc.shmat(libc.shmget(0, 4 << 20, 0o1600), None, 0)
    ctypes.memset(p, 1, 4 << 20); libc.shmdt(ctypes.c_void_p(p))
`, small),
		"pipes": program(call+strings.Replace(each, "%s", `r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); os.write(w, b"x" * (1 << 20))`, 1), small),
		"sockets": program(call+strings.Replace(each, "%s", `a, b = socket.socketpair(); keep += [a, b]; a.setblocking(False)
        while True: a.send(b"x" * 65536)`, 1), small),
		"descriptors":               program(call+strings.Replace(each, "%s", `keep.append(open("/dev/null")); libc.epoll_create1(0); libc.inotify_init()`, 1), small),
		"files of the compile step": compiled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if o, k := run(t, p); o.Status != job.OutOfMemory {
				t.Errorf("got %+v\n%.1000s", o, k.stderr.String())
			}
		})
	}
}

// TestNeighbours: of two jobs that run at once, neither finds anything of the other.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	open(t)
	first := program(call+`
keep = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
keep[0].bind("\0glovebox"); keep[1].bind(("127.0.0.1", 4242)); keep[2].bind("/tmp/socket")
for s in keep: s.listen()
for f in ("/tmp/x", "/dev/shm/x", "/work/x"): open(f, "w").write("secret")
assert libc.shmget(42, 4096, 0o1666) >= 0 and libc.semget(42, 1, 0o1666) >= 0 and libc.msgget(42, 0o1666) >= 0
print("on", flush=True); time.sleep(60)
`, limits(job.Limits{WallMS: 60_000}))
	first.Image = suite.image
	meanwhile(t, first)
	o, k := run(t, program(call+`
print([attempt(socket.socket(f).connect, a) for f, a in ((socket.AF_UNIX, "\0glovebox"), (socket.AF_INET, ("127.0.0.1", 4242)), (socket.AF_UNIX, "/tmp/socket"))])
print([f for f in ("/tmp/x", "/dev/shm/x", "/work/x") if os.path.exists(f)], call("shmget", 42, 4096, 0), call("semget", 42, 1, 0), call("msgget", 42, 0))
print(len([p for p in os.listdir("/proc") if p.isdigit()]))
`))
	if want := "['ECONNREFUSED', 'ECONNREFUSED', 'ENOENT']\n[] ENOENT ENOENT ENOENT\n2\n"; o.Status != job.Succeeded || k.stdout.String() != want {
		t.Errorf("got %+v\n%s%s", o, k.stdout.String(), k.stderr.String())
	}
}
