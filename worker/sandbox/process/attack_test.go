package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// mark is a word by which a process can be found.
func mark() string { return "glovebox-mark-" + strings.ToLower(rand.Text()) }

// processesOf counts the host's processes whose command line has the word.
func processesOf(t *testing.T, word string) (n int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if b, err := os.ReadFile(line); err == nil && bytes.Contains(b, []byte(word)) {
			n++
		}
	}
	return n
}

// prints runs a program that must succeed, and returns what it prints.
func prints(t *testing.T, source string, env map[string]string) string {
	t.Helper()
	p := python(source)
	for k, v := range env {
		p.Env[k] = v
	}
	o, k := run(t, p)
	if o.Status != job.Succeeded {
		t.Fatalf("got %s, %s", o.Status, k.stderr.String())
	}
	return k.stdout.String()
}

// TestSeesNothingOfTheHost: neither homes, nor the worker's environment, files, sockets and processes, nor what another sandbox has.
func TestSeesNothingOfTheHost(t *testing.T) {
	t.Parallel()
	secret := mark()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, secret), []byte(secret), 0o666); err != nil {
		t.Fatal(err)
	}
	other, held := holdSandbox(t, "echo "+secret+" >/tmp/"+secret+"; echo "+secret+" >/dev/shm/x; echo "+secret+" >/work/y")
	defer held()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	// It looks at everything but what packages have installed.
	got := prints(t, `
import os, sys
half = os.environ["HALF"]
secret = "glovebox-mark-" + half
for path in os.environ["PATHS"].split(":"):
    if os.path.exists(path): print("there is", path)
for top, dirs, files in os.walk("/", followlinks=False):
    dirs[:] = [d for d in dirs if os.path.join(top, d) not in ("/usr", "/proc/sys", "/proc/self", "/proc/thread-self")]
    for name in dirs + files:
        if secret in name: print("named", top, name)
    for name in files:
        path = os.path.join(top, name)
        if path in ("/proc/kmsg", "/work/main") or path.startswith("/dev/") or path == "/proc/%d/environ" % os.getpid(): continue
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if secret.encode() in os.read(fd, 1 << 20): print("in", path)
        except OSError: pass
        finally: os.close(fd)
print(sorted(p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()))
print(os.listdir("/proc/self/fd"))
`, map[string]string{
		"HALF":  strings.TrimPrefix(secret, "glovebox-mark-"),
		"PATHS": strings.Join([]string{dir, home, "/root", "/home", "/run", "/opt", "/srv", "/mnt", "/var/lib", "/etc/shadow", "/etc/ssh", "/etc/resolv.conf", "/sys", "/boot", other}, ":"),
	})
	if want := "['1']\n['0', '1', '2', '3']\n"; got != want { // 3 is the directory that is listed
		t.Errorf("got %s, want %s", got, want)
	}
}

// holdSandbox runs a program until held is called; other is a path of its sandbox as the host has it.
func holdSandbox(t *testing.T, script string) (other string, held func()) {
	t.Helper()
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	started, done := make(chan struct{}), make(chan struct{})
	marker := mark()
	go func() {
		defer close(done)
		_, _ = s.Run(ctx, bash(script+"; echo on; exec -a "+marker+" sleep 1000"), &waiting{started: started})
	}()
	select {
	case <-started:
	case <-done:
		t.Fatal("the other program has ended")
	}
	gbtest.Eventually(t, "the other program", func() bool { return processesOf(t, marker) == 1 })
	return "/proc/" + marker, func() { cancel(); <-done }
}

// TestReachesNoSocketOfTheHost: loopback, abstract and named sockets, and those that no network namespace bounds.
func TestReachesNoSocketOfTheHost(t *testing.T) {
	t.Parallel()
	redis := gbtest.Redis(t)
	var lc net.ListenConfig
	name := "@" + mark()
	abstract, err := lc.Listen(t.Context(), "unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	path := filepath.Join("/tmp", mark()) // a short name
	named, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	for network, address := range map[string]string{"tcp": redis.Addr, "unix": name} { // they are there, for us
		c, err := net.Dial(network, address) //nolint:noctx // it is local
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	got := prints(t, `
import os, socket
def attempt(what, connect):
    try: connect(); print("reached", what)
    except OSError as e: print(what, e.strerror)
host, port = os.environ["REDIS"].rsplit(":", 1)
attempt("redis", lambda: socket.create_connection((host, int(port)), 5))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0" + os.environ["ABSTRACT"]))
attempt("named", lambda: socket.socket(socket.AF_UNIX).connect(os.environ["NAMED"]))
attempt("outside", lambda: socket.create_connection(("192.0.2.1", 80), 5))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW))
attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
print([name for _, name in socket.if_nameindex()])
`, map[string]string{"REDIS": redis.Addr, "ABSTRACT": strings.TrimPrefix(name, "@"), "NAMED": path})
	want := `redis Connection refused
abstract Connection refused
named No such file or directory
outside Network is unreachable
vsock Address family not supported by protocol
packet Address family not supported by protocol
alg Address family not supported by protocol
['lo']
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestWritesNowhere: all but the job's own directories is read-only, and stays so.
func TestWritesNowhere(t *testing.T) {
	t.Parallel()
	got := prints(t, `
import os
for path in "/x", "/usr/x", "/usr/local/x", "/usr/lib/x", "/etc/x", "/etc/passwd", "/bin/x", "/dev/x", "/var/x", "/proc/x", "/proc/sys/kernel/hostname", \
        "/proc/sys/kernel/core_pattern", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem":
    try: open(path, "w"); print("written:", path)
    except OSError: pass
for path in "/usr/bin/env", "/usr", "/etc/passwd", "/":
    for act in lambda: os.chmod(path, 0o777), lambda: os.utime(path), lambda: os.rename(path, path + "~"), lambda: os.unlink(path):
        try: act(); print("changed:", path)
        except OSError: pass
for path in "/work/x", "/tmp/x", "/var/tmp/y", "/dev/shm/x": open(path, "w").close(); os.unlink(path)
print("end")
`, nil)
	if got != "end\n" {
		t.Errorf("got %s", got)
	}
}

// TestHasNoRights: no capability, none to come by, no namespace, no mount, no call that leads deep into the host's kernel.
func TestHasNoRights(t *testing.T) {
	t.Parallel()
	got := prints(t, `
import ctypes, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print({k: status[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")})
libc = ctypes.CDLL(None, use_errno=True)
def call(what, *args):
    ctypes.set_errno(0)
    print(what, libc.syscall(*args), os.strerror(ctypes.get_errno()))
call("unshare", 272, 0x10000000)
call("clone", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("mount", 165, b"x", b"/tmp", b"tmpfs", 0, 0)
call("bpf", 321, 0, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("x32", 0x40000000 | 39)
call("ptrace", 101, 16, 1, 0, 0)
call("kill 1", 62, 1, 9)
call("process_vm_readv", 310, 1, 0, 0, 0, 0, 0)
limit = (ctypes.c_uint64 * 2)(0, 0)
call("prlimit of 1", 302, 1, 7, 0, limit)
call("prlimit of core", 302, 0, 4, limit, 0)
call("setrlimit of core", 160, 4, limit)
call("prlimit reads", 302, 0, 4, 0, limit)
print("core", list(limit))
call("setpriority of 1", 141, 0, 1, 10)
call("setpriority", 141, 0, 0, 1)
call("affinity of 1", 203, 1, 8, limit)
call("socketpair tipc", 53, 30, 1, 0, limit)
call("socketpair unix", 53, 1, 1, 0, limit)
for name in "environ", "mem", "maps", "fd", "root", "cwd", "exe", "task/1/mem":
    try: (os.listdir if name in ("fd", "root", "cwd") else open)("/proc/1/" + name); print("sees", name)
    except OSError: pass
try: os.setuid(0); print("is root")
except OSError as e: print("setuid", e.strerror)
`, nil)
	zero := strings.Repeat("0", 16)
	want := fmt.Sprintf(`{'CapInh': '%[1]s', 'CapPrm': '%[1]s', 'CapEff': '%[1]s', 'CapBnd': '%[1]s', 'CapAmb': '%[1]s', 'NoNewPrivs': '1', 'Seccomp': '2'}
unshare -1 Operation not permitted
clone -1 Operation not permitted
clone3 -1 Function not implemented
mount -1 Function not implemented
bpf -1 Function not implemented
io_uring_setup -1 Function not implemented
x32 -1 Function not implemented
ptrace -1 Operation not permitted
kill 1 -1 Operation not permitted
process_vm_readv 0 Success
prlimit of 1 -1 Operation not permitted
prlimit of core -1 Operation not permitted
setrlimit of core -1 Operation not permitted
prlimit reads 0 Success
core [1, 1]
setpriority of 1 -1 Operation not permitted
setpriority 0 Success
affinity of 1 -1 Operation not permitted
socketpair tipc -1 Address family not supported by protocol
socketpair unix 0 Success
setuid Invalid argument
`, zero)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestKillsNobody: signals reach the program's own processes only.
func TestKillsNobody(t *testing.T) {
	t.Parallel()
	marker := mark()
	sleeper := exec.CommandContext(t.Context(), "sleep", "1000")
	sleeper.Args[0] = marker
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	o, k := run(t, bash(fmt.Sprintf("for p in %d %d; do kill -9 $p 2>/dev/null && echo killed $p; done; trap '' TERM; kill -TERM -1; kill -HUP 1; (kill -9 -1); echo on", sleeper.Process.Pid, os.Getpid())))
	if o.Signal != "SIGKILL" && k.stdout.String() != "on\n" {
		t.Errorf("got %+v, %s", o, k.stdout.String())
	}
	if strings.Contains(k.stdout.String(), "killed") || processesOf(t, marker) != 1 {
		t.Errorf("it reached a process of the host: %s", k.stdout.String())
	}
}

// TestForkBomb: it ends with its time, takes no process of anybody else, and leaves none.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	marker := mark()
	began := time.Now()
	o, _ := run(t, bounded(bash("f() { (exec -a "+marker+" sleep 1000) & f | f & }; f; while :; do f; done"), job.Limits{WallMS: 3000, Processes: 32, CPUMS: 60_000}))
	if o.Status != job.TimedOut && o.Status != job.Failed || time.Since(began) > gbtest.Patience {
		t.Errorf("got %+v after %s", o, time.Since(began))
	}
	if left := processesOf(t, marker); left != 0 {
		t.Errorf("%d processes are left", left)
	}
}

// TestLeavesNothing: neither daemons, nor mounts, nor files, nor objects of System V.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	marker := mark()
	o, k := run(t, bash("setsid -f bash -c 'exec -a "+marker+" sleep 1000' </dev/null >/dev/null 2>&1; echo x >/tmp/"+marker+"; ipcmk -M 4096 -p 0666 >/dev/null 2>&1; until grep -q "+marker+" /proc/[0-9]*/cmdline; do :; done; echo on"))
	if o.Status != job.Succeeded || k.stdout.String() != "on\n" {
		t.Fatalf("got %+v, %s", o, k.stderr.String())
	}
	if left := processesOf(t, marker); left != 0 {
		t.Errorf("%d processes are left", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), " /work ") || strings.Contains(string(mounts), "/tmp/usr") {
		t.Errorf("mounts are left: %s", mounts)
	}
	if _, err := os.Stat("/tmp/" + marker); err == nil {
		t.Error("a file is left in the host's /tmp")
	}
}

// workerVariable makes this test's program a worker that runs a program for ever.
const workerVariable = "GLOVEBOX_TEST_PROCESS_WORKER"

// TestEndsWithItsWorker: a worker that is killed leaves nothing running.
func TestEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	if marker := os.Getenv(workerVariable); marker != "" {
		_, _ = open(t).Run(t.Context(), bash("exec -a "+marker+" sleep 1000"), &kept{})
		return
	}
	open(t)
	marker := mark()
	self := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestEndsWithItsWorker$")
	self.Env = append(os.Environ(), workerVariable+"="+marker)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the program", func() bool { return processesOf(t, marker) == 1 })
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // it was killed
	gbtest.Eventually(t, "its end", func() bool { return processesOf(t, marker) == 0 })
}
