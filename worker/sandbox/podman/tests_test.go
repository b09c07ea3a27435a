package podman_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// graded is a sink that keeps what each test came to.
type graded struct {
	kept
	inputs []string // what the tests read
	args   []string // of all tests
	got    []testRun
}

type testRun struct {
	sandbox.TestOutcome
	stdout, stderr string
}

func (g *graded) Next(context.Context) (sandbox.Test, bool, error) {
	if len(g.got) == len(g.inputs) {
		return sandbox.Test{}, false, nil
	}
	return sandbox.Test{Args: g.args, Stdin: sandbox.File{Content: []byte(g.inputs[len(g.got)])}}, true, nil
}

func (g *graded) Ended(_ context.Context, o sandbox.TestOutcome) error {
	g.got = append(g.got, testRun{o, g.stdout.String(), g.stderr.String()})
	g.stdout.Reset()
	g.stderr.Reset()
	return nil
}

// grade runs the program on the inputs, in one sandbox.
func grade(tb testing.TB, p sandbox.Program, inputs ...string) (sandbox.Outcome, []testRun) {
	tb.Helper()
	g, sandboxes := &graded{inputs: inputs}, open(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), 15*time.Minute)
	defer cancel()
	if p.Image == "" {
		p.Image = suite.image
	}
	p.Tests = g
	o, err := sandboxes.Run(ctx, p, g)
	if err != nil {
		tb.Fatalf("%v, after %d tests", err, len(g.got))
	}
	if len(g.artifacts) > 0 {
		tb.Errorf("got artifacts: %s", g.names())
	}
	return o, g.got
}

// inC is a C program with the default limits.
func inC(tb testing.TB, source string) sandbox.Program {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup("c")
	if !ok {
		tb.Fatal("there is no runtime c")
	}
	p := program("")
	p.Image, p.Env = r.Image(), r.Env
	p.Compile, p.Command = r.Command(r.File, nil)
	p.Files = []sandbox.File{{Name: r.File, Content: []byte(source)}}
	return p
}

// TestTests: what becomes of each test, in one sandbox, in the three ways in which programs are run.
func TestTests(t *testing.T) {
	t.Parallel()
	short := limits(job.Limits{WallMS: 15_000, CPUMS: 3000, MemoryMB: 128, OutputKB: 16})
	ample := limits(job.Limits{WallMS: 60_000, CPUMS: 60_000, MemoryMB: 128, OutputKB: 16}) // no time ends them on a slow machine
	inPython := program(`
import sys, os
what = sys.stdin.readline().strip()
if what == "loop":
    while True: pass
if what == "sleep":
    import time; time.sleep(60)
if what == "flood":
    while True: print("x" * 1000)
if what == "memory":
    x = []
    while True: x.append(bytearray(1 << 20))
if what == "exit": sys.exit(3)
if what == "abort": os.abort()
if what == "stderr": sys.stderr.write("y" * 300000)
print(what)
`, short)
	for name, p := range map[string]sandbox.Program{
		"python":        inPython,
		"python forked": inPython,
		"bash": bash(`
read what
case $what in
loop) while :; do :; done ;;
sleep) sleep 60 ;;
flood) yes ;;
memory) cat /dev/zero > /dev/shm/x; cat /dev/zero > /dev/shm/y; sleep 60 ;; # full, they are over the limit together with bash itself
exit) exit 3 ;;
abort) kill -ABRT $$ ;;
stderr) head -c 300000 /dev/zero | tr '\0' y >&2 ;;
esac
echo $what
`, short),
		"c": func() sandbox.Program {
			p := inC(t, `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
	char what[99] = "";
	scanf("%90s", what);
	if (!strcmp(what, "loop")) for (;;) ;
	if (!strcmp(what, "sleep")) sleep(60);
	if (!strcmp(what, "flood")) for (;;) puts("xxxxxxxxxxxxx");
	if (!strcmp(what, "memory")) for (;;) { char *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); }
	if (!strcmp(what, "exit")) return 3;
	if (!strcmp(what, "abort")) abort();
	if (!strcmp(what, "stderr")) for (int i = 0; i < 300; i++) { char y[1001]; memset(y, 'y', 1000); y[1000] = 0; fputs(y, stderr); }
	puts(what);
}`)
			short(&p)
			return p
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := grade
			if name == "python forked" {
				asJobOf(pythonRuntime(t))(&p)
				forks := forking(t, "forked-outcomes")
				run = func(_ testing.TB, p sandbox.Program, inputs ...string) (sandbox.Outcome, []testRun) {
					return gradeIn(t, forks, true, p, nil, inputs...)
				}
			}
			inputs := []string{"a", "loop", "b", "sleep", "c"}
			o, got := run(t, p, inputs...)
			ample(&p)
			others := []string{"flood", "memory", "exit", "d", "abort", "stderr", "e"}
			o2, got2 := run(t, p, others...)
			if o.Status != job.Succeeded || o.Lost || len(got) != len(inputs) || o2.Status != job.Succeeded || o2.Lost || len(got2) != len(others) {
				t.Fatalf("got %+v, compile step %+v, after %d tests, want all %d; %+v after %d, want %d", o, o.Compile, len(got), len(inputs), o2, len(got2), len(others))
			}
			inputs, got = append(inputs, others...), append(got, got2...)
			want := map[string]sandbox.TestOutcome{
				"loop": {Status: job.TimedOut, ExitCode: 124}, "sleep": {Status: job.TimedOut, ExitCode: 124},
				"flood": {Status: job.OutputLimitExceeded}, "memory": {Status: job.OutOfMemory},
				"exit": {Status: job.Failed, ExitCode: 3}, "abort": {Status: job.Failed, ExitCode: 134, Signal: "SIGABRT"},
			}
			for i, in := range inputs {
				w, special := want[in]
				if !special {
					w.Status = job.Succeeded
				}
				g := got[i]
				if g.Status != w.Status || w.ExitCode != 0 && g.ExitCode != w.ExitCode || g.Signal != w.Signal && w.Signal != "" {
					t.Errorf("%s: got %+v, want %+v", in, g.TestOutcome, w)
				}
				if !special && g.stdout != in+"\n" {
					t.Errorf("%s: printed %.100q", in, g.stdout)
				}
				if len(g.stdout) > 16<<10 || len(g.stderr) > 64<<10+100 || in == "stderr" && len(g.stderr) != 64<<10 {
					t.Errorf("%s: got %d bytes of stdout, %d of stderr", in, len(g.stdout), len(g.stderr))
				}
				if g.Usage.WallMS < 0 || in == "sleep" && g.Usage.WallMS < 500 || g.Usage.MemoryPeakBytes <= 0 || in == "sleep" && g.Usage.CPUMS > 2000 || in == "loop" && g.Usage.CPUMS < 700 {
					t.Errorf("%s: used %+v", in, g.Usage)
				}
			}
		})
	}
}

// TestTestsLeaveNothing: each run finds what the first one found, whatever those before have left.
func TestTestsLeaveNothing(t *testing.T) {
	t.Parallel()
	look := `
exec 2>&1
echo "in: $(cat)"
ls -A /work /tmp /dev/shm
cat /proc/[0-9]*/comm | sort -u | grep -v -e '^cat$' -e '^sort$' -e '^grep$' -e '^bash$'
sha256sum main.sh ; stat -c '%a %n' main.sh
cat /proc/net/unix | wc -l
python3 -c 'import os
for d in "/work", "/tmp", "/dev/shm", "/", "/usr/bin/env": print(d, os.listxattr(d), oct(os.stat(d).st_mode), os.statvfs(d).f_bfree, os.statvfs(d).f_ffree)'
find / -path /proc -prune -o -writable ! -type l -print 2>/dev/null | sort
cat ~/.marker /tmp/marker /dev/shm/marker marker
echo me > /proc/1/comm; kill -9 1 ; cat /proc/1/environ /proc/1/mem
`
	leave := `
python3 -c 'import os, struct
acl = struct.pack("<I" + 3 * "HHI", 2, 1, 7, 0xffffffff, 4, 7, 0xffffffff, 32, 7, 0xffffffff)
os.setxattr("main.sh", "system.posix_acl_access", acl)
for d in "/work", "/tmp", "/dev/shm", "/", "/usr/bin/env":
    for name in "user.left", "trusted.left", "security.left", "system.posix_acl_access", "system.posix_acl_default":
        try: os.setxattr(d, name, acl)
        except OSError: continue
        print("set", name, "of", d)'
for d in /work /tmp /dev/shm; do
  cd $d
  echo left > marker; echo left > .marker; mkdir -p deep/er/est; echo x > deep/er/est/f; chmod 0 deep/er/est/f deep/er/est deep/er deep
  mkfifo pipe; ln -s / link; ln marker hard
  d=dddddddddddddddd; for i in {1..50}; do mkdir $d && cd $d || break; done
done
cd /work; echo 'echo rewritten' > main.sh; chmod 777 main.sh; mv main.sh x; echo 'echo again' > main.sh
for i in {1..500}; do : > f$i; done
python3 -c 'import os
for i in range(1000): os.mkdir("e" * 200, 0o700); os.chdir("e" * 200)'
setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 100; done' > /dev/null < /dev/null &
setsid sh -c 'while :; do echo left >> /tmp/late; echo left >> /work/late; done' > /dev/null < /dev/null &
(sleep 30; echo late) &
`
	_, got := grade(t, bash(look+leave, limits(job.Limits{WallMS: 200_000})), "one", "two", "three", "four")
	if len(got) != 4 {
		t.Fatalf("got %d tests", len(got))
	}
	first := strings.Replace(got[0].stdout, "in: one", "", 1)
	t.Log(got[0].stdout)
	for i, g := range got {
		in := []string{"one", "two", "three", "four"}[i]
		if g.Status != job.Succeeded || strings.Replace(g.stdout, "in: "+in, "", 1) != first {
			t.Errorf("test %d: got %v\n%s\nwant what the first one found:\n%s", i+1, g.Status, g.stdout, first)
		}
	}
	for _, no := range []string{"left", "sleep", "late", "rewritten", "set "} {
		if strings.Contains(first, no) {
			t.Errorf("the first run found %q", no)
		}
	}
}

// TestTestThatCannotBeCleared: what a run holds on to after its end, in a message between two sockets of
// its own, ends the sandbox and not the job: the run keeps its outcome, and no test is begun.
func TestTestThatCannotBeCleared(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{
		"files that fill their directory": `
import errno
full = False
while not full:
    held.append(os.open("/work/x", os.O_RDWR | os.O_CREAT))
    os.unlink("/work/x")
    try:
        while True: os.write(held[-1], bytes(1 << 20))
    except OSError as e: full = e.errno == errno.ENOSPC # and not limits.file_mb`,
		"a small file":   `held.append(os.open("/tmp/x", os.O_RDWR | os.O_CREAT)); os.write(held[0], b"x")`,
		"a lock":         `import fcntl; held.append(os.open("/usr/bin/env", os.O_RDONLY)); fcntl.flock(held[0], fcntl.LOCK_EX)`,
		"nothing at all": ``,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, got := grade(t, program("import os, socket"+`
a, b = socket.socketpair()
held = []
`+hold+`
socket.send_fds(a, [b"x"], held + [a.fileno(), b.fileno()])
socket.send_fds(b, [b"x"], held + [a.fileno(), b.fileno()])
print(input())`), "one", "two")
			if !o.Lost || len(got) != 1 || got[0].Status != job.Succeeded || got[0].stdout != "one\n" {
				t.Errorf("got %+v after %+v, want the sandbox lost after one test, which succeeded", o, got)
			}
		})
	}
}

// TestTestsHaveNoIPC: what outlives processes and is no file can't be made, neither by the compile step
// nor by a run. Each run has another uid.
func TestTestsHaveNoIPC(t *testing.T) {
	t.Parallel()
	p := program(`
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": (29, 64, 68, 240), "aarch64": (194, 190, 186, 180)}[platform.machine()]
for n, args in zip(number, [(1, 4096, 0o1666), (1, 1, 0o1666), (1, 0o1666), (b"/q\0", 0o102, 0o666, 0)]):
    print(libc.syscall(n, *args), errno.errorcode[ctypes.get_errno()])
print(os.getuid(), os.getgid(), os.getgroups(), os.getresuid()[2])
`)
	_, got := grade(t, p, "", "", "")
	for i, g := range got {
		want := strings.Repeat("-1 ENOSYS\n", 4) + fmt.Sprintf("%d %[1]d [] %[1]d\n", 10_000+i)
		if g.stdout != want {
			t.Errorf("test %d: got %q, %q, want %q", i+1, g.stdout, g.stderr, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %d tests", len(got))
	}
}

// TestTestsCompileOnce: the compile step runs before any test is there, and each run has what it made,
// which no other run changes.
func TestTestsCompileOnce(t *testing.T) {
	t.Parallel()
	p := bash(`read name; test $name = one || test "$1" = arg; cat made /tmp/made dir/link; echo $name > made; rm -r /tmp/made dir; cat compiled`)
	p.Compile = []string{"bash", "-c", `umask 077; echo made > made; echo made > /tmp/made; mkdir dir; echo link > to; ln -s ../to dir/link; echo "$(cat): $(ls -A /dev/shm)" > compiled; echo x > /dev/shm/x
		(sleep 20; echo late > made) & python3 -c 'import os; os.fork() or os.setsid()'`}
	g := &graded{inputs: []string{"one", "two", "three"}, args: []string{"arg"}}
	p.Tests = g
	sandboxes := open(t)
	p.Image = suite.image
	o, err := sandboxes.Run(t.Context(), p, g)
	if err != nil || o.Status != job.Succeeded || o.Compile == nil {
		t.Fatalf("got %+v, %v", o, err)
	}
	for i, run := range g.got {
		if want := "made\nmade\nlink\n: \n"; run.stdout != want || run.Status != job.Succeeded {
			t.Errorf("test %d: got %q, %q, %v, want %q", i+1, run.stdout, run.stderr, run.Status, want)
		}
	}

	p = bash("echo")
	p.Compile = []string{"bash", "-c", "echo no >&2; exit 4"}
	if o, got := grade(t, p, "one"); o.Status != job.CompileFailed || o.Compile.ExitCode != 4 || len(got) != 0 {
		t.Errorf("a compile step that fails: got %+v and %d tests", o, len(got))
	}
	p.Compile = []string{"bash", "-c", "for i in {1..1100}; do : > $i; done"}
	if o, got := grade(t, p, "one"); o.Status != job.CompileFailed || !strings.Contains(o.Compile.Output, "1000 files") || len(got) != 0 {
		t.Errorf("a compile step that makes too many files: got %+v and %d tests", o, len(got))
	}
	p.Compile = []string{"python3", "-c", `import os
for i in range(20): os.mkdir("d" * 250); os.chdir("d" * 250)`}
	if o, got := grade(t, p, "one"); o.Status != job.CompileFailed || !strings.Contains(o.Compile.Output, "4095 bytes") || len(got) != 0 {
		t.Errorf("a compile step that makes too long a path: got %+v and %d tests", o, len(got))
	}
	p.Compile = []string{"bash", "-c", "mkdir shut; : > shut/f; chmod 0444 shut; mkdir closed; chmod 0 closed"}
	if o, got := grade(t, p, "one"); o.Status != job.Succeeded || len(got) != 1 {
		t.Errorf("a compile step that makes a directory that can't be entered: got %+v and %d tests", o, len(got))
	}
	p.Compile = []string{"bash", "-c", "head -c 40000000 /dev/zero > big"}
	if o, got := grade(t, p, "one"); o.Status != job.CompileFailed || !strings.Contains(o.Compile.Output, "disk_mb") || len(got) != 0 {
		t.Errorf("a program of more than a half of its directory: got %+v and %d tests", o, len(got))
	}
}
