package process_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/process"
)

// want is what must come of a program.
type want struct {
	status         job.Status
	exitCode       int
	signal, limit  string
	stdout, stderr string // all of stdout, a part of stderr
	artifacts      map[string]string
}

// TestPrograms: programs come to what they come to in gVisor, as far as limits are not concerned that only a kernel keeps.
func TestPrograms(t *testing.T) {
	t.Parallel()
	with := func(p sandbox.Program, change func(*sandbox.Program)) sandbox.Program { change(&p); return p }
	c := func(source string) sandbox.Program {
		p := program(source)
		p.Compile, p.Command = []string{"gcc", "-x", "c", "-O2", "-o", "/tmp/main", "main"}, []string{"/tmp/main"}
		return p
	}
	for name, tt := range map[string]struct {
		program sandbox.Program
		want    want
	}{
		"python":      {python("print('hello')"), want{status: job.Succeeded, stdout: "hello\n"}},
		"node":        {program("console.log('hello')", "node"), want{status: job.Succeeded, stdout: "hello\n"}},
		"bash":        {bash("echo hello; echo there >&2"), want{status: job.Succeeded, stdout: "hello\n", stderr: "there\n"}},
		"c":           {c("#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }"), want{status: job.Succeeded, stdout: "hello\n"}},
		"no such C":   {c("int main(void) { return x; }"), want{status: job.CompileFailed, exitCode: 1}},
		"crash":       {c("int main(void) { *(volatile int *)0 = 1; }"), want{status: job.Failed, exitCode: 139, signal: "SIGSEGV"}},
		"exit code":   {bash("exit 3"), want{status: job.Failed, exitCode: 3}},
		"signal":      {bash("kill -9 $$"), want{status: job.Failed, exitCode: 137, signal: "SIGKILL"}},
		"no command":  {program("", "no-such-language"), want{status: job.Failed, exitCode: 127, stderr: "no-such-language: command not found"}},
		"stdin":       {with(bash("cat"), func(p *sandbox.Program) { p.Stdin = []byte("given") }), want{status: job.Succeeded, stdout: "given"}},
		"no stdin":    {bash("cat; echo end"), want{status: job.Succeeded, stdout: "end\n"}},
		"environment": {with(bash("echo $A $HOME $PATH"), func(p *sandbox.Program) { p.Env = map[string]string{"A": "b"} }), want{status: job.Succeeded, stdout: "b /tmp /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"}},
		"files": {
			bash("cat main >/dev/null; mkdir d; echo x >a; echo y >d/b; ln -s a link; echo z >/tmp/elsewhere"),
			want{status: job.Succeeded, artifacts: map[string]string{"a": "x\n", "d/b": "y\n"}},
		},
		"wall time":            {bounded(bash("sleep 60"), job.Limits{WallMS: 300}), want{status: job.TimedOut, exitCode: 124, limit: "wall_ms", stderr: "Execution timed out\n"}},
		"CPU time":             {bounded(python("while True: pass"), job.Limits{WallMS: 60_000, CPUMS: 300}), want{status: job.TimedOut, exitCode: 124, limit: "cpu_ms"}},
		"their CPU":            {bounded(bash("for i in 1 2 3; do python3 -c 'import time\nwhile time.process_time() < 0.4: pass'; done; sleep 50"), job.Limits{WallMS: 60_000, CPUMS: 700}), want{status: job.TimedOut, exitCode: 124, limit: "cpu_ms"}},
		"memory":               {bounded(python("x = []\nwhile True: x.append(bytearray(1 << 20))"), job.Limits{MemoryMB: 64}), want{status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL", limit: "memory_mb"}},
		"traced by its parent": {bounded(python("import ctypes, os, signal\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), signal.SIGTRAP)"), job.Limits{WallMS: 2000}), want{status: job.TimedOut, exitCode: 124, limit: "wall_ms"}},
		"memory without a main thread": {bounded(python(`
import ctypes, threading
def hold():
    x = []
    while True: x.append(bytearray(1 << 20))
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall(60, 0)
`), job.Limits{MemoryMB: 64, WallMS: 30_000}), want{status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL", limit: "memory_mb"}},
		"files count": {bounded(bash("head -c 90M /dev/zero >/tmp/x; sleep 50"), job.Limits{MemoryMB: 64, DiskMB: 200, FileMB: 200}), want{status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL", limit: "memory_mb"}},
		"shared once": {
			bounded(python("import os, time\nx = b'x' * (40 << 20)\nfor i in range(4):\n  if not os.fork(): time.sleep(1); os._exit(0)\nfor i in range(4): os.wait()\nprint('all')"), job.Limits{MemoryMB: 80}),
			want{status: job.Succeeded, stdout: "all\n"},
		},
		"output":     {bounded(bash("yes"), job.Limits{OutputKB: 1}), want{status: job.OutputLimitExceeded, exitCode: 137, signal: "SIGKILL", limit: "output_kb", stdout: strings.Repeat("y\n", 512)}},
		"processes":  {bounded(bash("for i in {1..200}; do sleep 30 & done"), job.Limits{Processes: 20, WallMS: 10_000}), want{status: job.TimedOut, exitCode: 124, limit: "wall_ms", stderr: "fork: retry: Resource temporarily unavailable"}},
		"open files": {bounded(python("x = []\nwhile True: x.append(open('main'))"), job.Limits{OpenFiles: 32}), want{status: job.Failed, exitCode: 1, stderr: "Too many open files"}},
		"disk":       {bounded(bash("head -c 3M /dev/zero >x"), job.Limits{DiskMB: 2}), want{status: job.Failed, exitCode: 1, stderr: "No space left on device", artifacts: map[string]string{"x": strings.Repeat("\x00", 2<<20-4096)}}},
		"loopback":   {python("import socket\ns = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('heard')"), want{status: job.Succeeded, stdout: "heard\n"}},
		"a server":   {python("from multiprocessing import Pool\nwith Pool(2) as p: print(p.map(abs, [-1, -2]))"), want{status: job.Succeeded, stdout: "[1, 2]\n"}},
		"threads":    {python("import threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()"), want{status: job.Succeeded, stdout: "thread\n"}},
		"who it is":  {bash("id -un; id -u; hostname 2>/dev/null || cat /proc/sys/kernel/hostname; pwd"), want{status: job.Succeeded, stdout: "glovebox\n1000\nglovebox\n/work\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"node", "gcc"} {
				if _, err := exec.LookPath(command); err != nil && slices.Contains(slices.Concat(tt.program.Command, tt.program.Compile), command) {
					t.Skipf("SKIPPED: this machine has no %s", command)
				}
			}
			if name == "disk" {
				tt.want.artifacts = nil // how much of it there is, is the file system's to say
			}
			o, k := run(t, tt.program)
			if o.Status != tt.want.status || o.ExitCode != tt.want.exitCode || o.Signal != tt.want.signal || o.Limit != tt.want.limit {
				t.Errorf("got %s, exit code %d, signal %q, limit %q; want %+v\nstderr: %.500s\n%+v", o.Status, o.ExitCode, o.Signal, o.Limit, tt.want, k.stderr.String(), o.Compile)
			}
			if got := k.stdout.String(); got != tt.want.stdout {
				t.Errorf("stdout: got %.200q, want %.200q", got, tt.want.stdout)
			}
			if !strings.Contains(k.stderr.String(), tt.want.stderr) {
				t.Errorf("stderr: got %.500q, want %q in it", k.stderr.String(), tt.want.stderr)
			}
			if name != "disk" && !maps.Equal(k.artifacts, tt.want.artifacts) {
				t.Errorf("artifacts: got %q, want %q", k.artifacts, tt.want.artifacts)
			}
			if o.Isolation != job.Process || o.LimitsEnforced != "soft" || o.OCIRuntime != "" || o.ImageDigest != "" {
				t.Errorf("the outcome says %+v of where it was run", o)
			}
		})
	}
}

// TestRefuses: what is to be isolated by more, or needs an image or a session, is never run.
func TestRefuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, change := range map[string]func(*sandbox.Program){
		"by default":        func(p *sandbox.Program) { p.Isolation = "" },
		"gVisor":            func(p *sandbox.Program) { p.Isolation = job.GVisor },
		"an unknown one":    func(p *sandbox.Program) { p.Isolation = "none" },
		"an image":          func(p *sandbox.Program) { p.Image = "localhost/x@sha256:0" },
		"a session of code": func(p *sandbox.Program) { p.Turns = noTurns{} },
	} {
		p := bash("echo run")
		change(&p)
		k := &kept{}
		if o, err := s.Run(t.Context(), p, k); err == nil || k.stdout.Len() > 0 {
			t.Errorf("%s: got %+v, %v, and %q", name, o, err, k.stdout.String())
		}
	}
}

type noTurns struct{}

func (noTurns) Next(context.Context) (t sandbox.Turn, ok bool, err error)  { return t, false, nil }
func (noTurns) Ended(context.Context, sandbox.TurnOutcome) error           { return nil }
func (g graded) Next(context.Context) (t sandbox.Test, ok bool, err error) { return g.next() }

func (g graded) Ended(_ context.Context, o sandbox.TestOutcome) error {
	*g.outcomes = append(*g.outcomes, o)
	return nil
}

// graded are tests that a program is run on.
type graded struct {
	inputs   *[]string
	outcomes *[]sandbox.TestOutcome
}

func (g graded) next() (t sandbox.Test, ok bool, err error) {
	if len(*g.inputs) == 0 {
		return t, false, nil
	}
	t.Stdin = sandbox.File{Content: []byte((*g.inputs)[0])}
	*g.inputs = (*g.inputs)[1:]
	return t, true, nil
}

// TestOnTests: a run on one test finds nothing of the one before.
func TestOnTests(t *testing.T) {
	t.Parallel()
	p := bash("read word; echo $word; ls -A /work /tmp /dev/shm | tr '\\n' ' '; echo $word | tee /work/left /tmp/left >/dev/shm/left; (sleep 60 &); [ $word != b ]")
	var outcomes []sandbox.TestOutcome
	p.Tests = graded{&[]string{"a\n", "b\n", "c\n"}, &outcomes}
	_, k := run(t, p)
	var got []job.Status
	for _, o := range outcomes {
		got = append(got, o.Status)
	}
	if want := []job.Status{job.Succeeded, job.Failed, job.Succeeded}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	one := "\n/dev/shm:  /tmp:  /work: main "
	if got, want := k.stdout.String(), "a"+one+"b"+one+"c"+one; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOnTestsBehindLockedDoors: a program that keeps everybody out of its directories has no later run fail.
func TestOnTestsBehindLockedDoors(t *testing.T) {
	t.Parallel()
	const acl = `import os, struct; os.setxattr("/work", "system.posix_acl_default", struct.pack("<IHHIHHIHHI", 2, 1, 0, 2**32 - 1, 4, 0, 2**32 - 1, 32, 0, 2**32 - 1))`
	for name, lock := range map[string]string{
		"mode":                  "chmod 500 /work /tmp /dev/shm",
		"access control's list": "/usr/bin/python3 -c '" + acl + "'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bash("stat -c %a /work /tmp /dev/shm | tr '\n' ' '; rm -r /work/*; " + lock)
			var outcomes []sandbox.TestOutcome
			p.Tests = graded{&[]string{"a\n", "b\n", "c\n"}, &outcomes}
			_, k := run(t, p)
			for i, o := range outcomes {
				if o.Status != job.Succeeded {
					t.Errorf("test %d: got %q, stderr %q", i, o.Status, k.stderr.String())
				}
			}
			if got, want := k.stdout.String(), strings.Repeat("1777 1777 1777 ", 3); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestOnTestsWithoutMarks: a run finds nothing that the one before has noted on the directories themselves, nor its connections; a program that
// talks to itself has no later run fail.
func TestOnTestsWithoutMarks(t *testing.T) {
	t.Parallel()
	p := python(`
import fcntl, os, socket, struct
get, set, no_dump = 0x80086601, 0x40086602, 0x40
for path in "/work", "/tmp", "/dev/shm":
    at, own = os.open(path, os.O_RDONLY), os.stat(path)
    print(os.listxattr(path), 7 in (own.st_atime, own.st_mtime), end=" ")
    try:
        print(struct.unpack("i", fcntl.ioctl(at, get, bytes(4)))[0] & no_dump)
        fcntl.ioctl(at, set, struct.pack("i", no_dump))
    except OSError as e:
        print(e)
    try:
        os.setxattr(path, "user.x", b"y")
    except OSError as e:
        print(e)
    os.utime(path, (7, 7))
print(len(open("/proc/net/tcp").readlines()) - 1)
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    server.accept()[0].close()
`)
	var outcomes []sandbox.TestOutcome
	p.Tests = graded{&[]string{"a\n", "b\n", "c\n"}, &outcomes}
	_, k := run(t, p)
	for i, o := range outcomes {
		if o.Status != job.Succeeded {
			t.Errorf("test %d: got %q, stderr %q", i, o.Status, k.stderr.String())
		}
	}
	first, _, _ := strings.Cut(k.stdout.String(), "\n0\n")
	if got, want := k.stdout.String(), strings.Repeat(first+"\n0\n", 3); len(outcomes) != 3 || !strings.Contains(first, "[] False") || got != want {
		t.Errorf("got %q of %d runs, want %q", got, len(outcomes), want)
	}
}

// TestCancel: a run ends with its context, whatever the sink waits for, and nothing of it is left.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := open(t)
	why := errors.New("enough")
	for name, blocked := range map[string]bool{"while it runs": false, "while the sink blocks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			started := make(chan struct{})
			marker := mark()
			go func() { <-started; cancel(why) }()
			_, err := s.Run(ctx, bash("echo on; exec -a "+marker+" sleep 1000"), &waiting{started: started, until: ctx.Done(), blocked: blocked})
			if !errors.Is(err, why) {
				t.Errorf("got %v, want %v", err, why)
			}
			if left := processesOf(t, marker); left != 0 {
				t.Errorf("%d processes are left", left)
			}
		})
	}
}

// waiting is a sink that says when something is printed, and may block then.
type waiting struct {
	started chan struct{}
	until   <-chan struct{}
	blocked bool
}

func (w *waiting) Stdout([]byte) error {
	close(w.started)
	if w.blocked {
		<-w.until
		time.Sleep(10 * time.Millisecond) // it does not end at once
	}
	return nil
}
func (w *waiting) Stderr([]byte) error                                      { return nil }
func (w *waiting) Artifact(context.Context, string, int64, io.Reader) error { return nil }

// TestStartsInMilliseconds: this is what the isolation is for, beside being there without Podman.
func TestStartsInMilliseconds(t *testing.T) {
	t.Parallel()
	gbtest.Eventually(t, "a program that starts within a second", func() bool {
		o, _ := run(t, bash("true"))
		return o.Startup < time.Second
	})
}

// TestOpenRefuses: an agent that can't be started, or none of ours, is found out at the start.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"", "relative", "/no/such/agent", "/bin/true"} {
		if _, err := process.Open(t.Context(), process.Config{Agent: agent}); err == nil {
			t.Errorf("%q: it is taken for an agent", agent)
		}
	}
}
