package podman_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// look is what a job sees of where it is.
const look = `
import json, os, socket, sys, ctypes
def attempt(f):
    try:
        r = f()
        return "ok" if r is None else "ok " + str(r)[:60]
    except OSError as e:
        return e.strerror
def write(path):
    def f():
        with open(path, "w") as h: h.write("x")
    return f
status = dict(l.split(":\t") for l in open("/proc/self/status").read().splitlines() if ":\t" in l)
libc = ctypes.CDLL(None, use_errno=True)
def ptrace():
    if libc.ptrace(16, 1, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def connect():
    socket.create_connection(("1.1.1.1", 53), 1)
report = {
    "kernel": open("/proc/version").read(),
    "ids": os.getresuid() + os.getresgid() + tuple(os.getgroups()),
    "caps": [status["Cap" + s].strip() for s in ("Inh", "Prm", "Eff", "Bnd", "Amb")] if "CapAmb" in status else [status["Cap" + s].strip() for s in ("Inh", "Prm", "Eff", "Bnd")],
    "nnp": status.get("NoNewPrivs", "").strip(),
    "interfaces": [i[1] for i in socket.if_nameindex()],
    "mounts": sorted(l.split()[1] + " " + l.split()[2] + " " + l.split()[3].split(",")[0] for l in open("/proc/mounts")),
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "host": socket.gethostname(),
    "fds": sorted(int(f) for f in os.listdir("/proc/self/fd"))[:-1],
    "session": os.getsid(0) == os.getpid(),
    "pids": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "umask": os.umask(0o22),
    "try": {
        "write root": attempt(write("/x")),
        "write etc": attempt(write("/etc/x")),
        "write run": attempt(write("/run/x")),
        "write var/tmp": attempt(write("/var/tmp/x")),
        "write dev": attempt(write("/dev/x")),
        "write cgroup": attempt(write("/sys/fs/cgroup/pids/glovebox-program/pids.max")),
        "leave cgroup": attempt(write("/sys/fs/cgroup/pids/cgroup.procs")),
        "write agent": attempt(write("/glovebox-agent" + "/agent" * os.path.isdir("/glovebox-agent"))),
        "write work": attempt(write("/work/x")),
        "write tmp": attempt(write("/tmp/x")),
        "write shm": attempt(write("/dev/shm/x")),
        "agent's environ": attempt(lambda: open("/proc/1/environ").read()),
        "agent's memory": attempt(lambda: open("/proc/1/mem", "r+b").read(1)),
        "agent's descriptors": attempt(lambda: os.listdir("/proc/1/fd")),
        "agent's stdin": attempt(lambda: open("/proc/1/fd/0")),
        "signal agent": attempt(lambda: os.kill(1, 9)),
        "trace agent": attempt(ptrace),
        "setuid": attempt(lambda: os.setuid(0)),
        "chroot": attempt(lambda: os.chroot("/work")),
        "mount": attempt(lambda: libc.mount(b"none", b"/work", b"tmpfs", 0, 0) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))),
        "connect": attempt(connect),
        "write stdin": attempt(lambda: open("/proc/self/fd/0", "w").write("x")),
    },
    "stdin": sys.stdin.read(),
}
print(json.dumps(report))
`

type seen struct {
	Kernel     string
	IDs        []int
	Caps       []string
	NNP        string
	Interfaces []string
	Mounts     []string
	Env        map[string]string
	Cwd        string
	Host       string
	FDs        []int
	Session    bool
	PIDs       []int
	Try        map[string]string
	Stdin      string
}

// TestIsolation proves what docs/security.md promises of the inside of a sandbox.
func TestIsolation(t *testing.T) {
	t.Parallel()
	open(t)
	t.Run("root image", func(t *testing.T) {
		t.Parallel()
		testIsolation(t, program(look), "Read-only file system", "/ erofs ro", "/glovebox-agent erofs ro")
	})
	t.Run("no root image", func(t *testing.T) {
		t.Parallel()
		tag := build(t, "no-root-image", "FROM "+suite.image+"\nLABEL another=image\n")
		testIsolation(t, program(look, in("no-root-image", tag)), "Permission denied", "/ 9p ro", "/glovebox-agent 9p ro", "/etc/hostname 9p ro", "/run/.containerenv 9p ro")
	})
}

// testIsolation runs look, and wants that error where it writes to the root, and those mounts
// for the root and the agent.
func testIsolation(t *testing.T, p sandbox.Program, denied string, mounts ...string) {
	t.Helper()
	p.Stdin = []byte("given")
	o, k := run(t, p)
	if o.Status != job.Succeeded {
		t.Fatalf("got %+v\n%s", o, k.stderr.String())
	}
	var got seen
	if err := json.Unmarshal(k.stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, k.stdout.String())
	}
	if !strings.Contains(got.Kernel, "-gvisor ") {
		t.Errorf("kernel: got %q, want gVisor's", got.Kernel)
	}
	for _, c := range got.Caps {
		if strings.Trim(c, "0") != "" {
			t.Errorf("capabilities: got %v, want all sets empty", got.Caps)
		}
	}
	if len(got.Caps) != 5 {
		t.Errorf("capabilities: got %d sets, want 5", len(got.Caps))
	}
	dev := "/dev dev rw"
	if slices.Contains(got.Mounts, "/dev dev ro") {
		dev = "/dev dev ro" // by Podman 5; a job can't write there either way, see "write dev"
	}
	want := seen{
		Kernel: got.Kernel, Caps: got.Caps,
		IDs: []int{1000, 1000, 1000, 1000, 1000, 1000}, NNP: "1",
		Interfaces: []string{"lo"},
		Mounts: slices.Sorted(slices.Values(append(mounts,
			dev, "/dev/pts devpts rw", "/dev/shm tmpfs rw", "/proc proc rw", "/sys sysfs ro",
			"/sys/fs/cgroup tmpfs ro", "/sys/fs/cgroup/cpu cgroup rw", "/sys/fs/cgroup/cpuacct cgroup rw",
			"/sys/fs/cgroup/cpuset cgroup rw", "/sys/fs/cgroup/devices cgroup rw", "/sys/fs/cgroup/job cgroup rw",
			"/sys/fs/cgroup/memory cgroup rw", "/sys/fs/cgroup/pids cgroup rw", "/tmp tmpfs rw", "/work tmpfs rw",
		))),
		Env: map[string]string{
			"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp",
			"TMPDIR": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
		},
		Cwd: "/work", Host: "glovebox", FDs: []int{0, 1, 2}, Session: true, PIDs: got.PIDs,
		Stdin: "given",
		Try: map[string]string{
			"write root": denied, "write etc": denied, "write run": denied,
			"write var/tmp": "Read-only file system", "write dev": "Permission denied",
			"write cgroup": "Permission denied", "leave cgroup": "Permission denied",
			"write agent": "Permission denied", "write work": "ok", "write tmp": "ok", "write shm": "ok",
			"agent's environ": "Permission denied", "agent's memory": "Permission denied",
			"agent's descriptors": "Permission denied", "agent's stdin": "Permission denied",
			"signal agent": "Operation not permitted", "trace agent": "Operation not permitted",
			"setuid": "Operation not permitted", "chroot": "Operation not permitted", "mount": "Operation not permitted",
			"connect": "Network is unreachable", "write stdin": "Operation not permitted",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(got.PIDs) != 2 || got.PIDs[0] != 1 {
		t.Errorf("processes: got %v, want the agent and the job", got.PIDs)
	}
}

// agentEnv is what Podman gives a container whatever it is told.
var agentEnv = []string{"HOME=/root", "HOSTNAME=glovebox", "container=podman"}

// TestAgentEnvironment: the agent's own environment has nothing of the image's either.
func TestAgentEnvironment(t *testing.T) {
	t.Parallel()
	open(t)
	prog := bash("echo on; sleep 60", limits(job.Limits{WallMS: 60_000}))
	prog.Image, prog.JobID = suite.image, "agent-environment" // it sets PATH
	meanwhile(t, prog)
	id, err := podmanCLI("ps", "-q", "--filter", "label=run.glovebox.job=agent-environment", "--filter", "label=run.glovebox.instance="+instance)
	if err != nil {
		t.Fatal(err)
	}
	out, err := podmanCLI("inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", id)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range strings.Fields(out) {
		if !slices.Contains(agentEnv, v) {
			t.Errorf("the agent has %q", v)
		}
	}
}
