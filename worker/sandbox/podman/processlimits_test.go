package podman_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// deep is a program in C that uses so many MiB of stack, in its main thread and in another.
const deep = `
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
static int dig(int mib) { volatile char here[1 << 20]; memset((char *)here, mib, sizeof here); return mib ? dig(mib - 1) + here[5] : 0; }
static void *digs(void *mib) { dig(*(int *)mib); return 0; }
int main(int n, char **a) {
	int mib = MIB;
	dig(mib);
	puts("main");
	fflush(stdout);
	pthread_t t;
	if (pthread_create(&t, 0, digs, &mib)) return 9;
	pthread_join(t, 0);
	puts("thread");
}`

// TestProcessLimits: limits of each process of a program are set before it starts, and a compile step has none.
func TestProcessLimits(t *testing.T) {
	t.Parallel()
	stack := func(mib string) sandbox.Program {
		p := inC(t, strings.ReplaceAll(deep, "MIB", mib))
		p.Compile = []string{"gcc", "-O0", "-o", "/tmp/main", "main.c", "-lpthread"}
		return p
	}
	with := func(p sandbox.Program, l job.Limits) sandbox.Program {
		if l.MemoryMB == 0 {
			l.MemoryMB = 512
		}
		limits(l)(&p)
		return p
	}
	tell := "import resource as r\nprint(*[r.getrlimit(getattr(r, 'RLIMIT_' + n)) for n in ('AS', 'STACK')])"
	for name, c := range map[string]struct {
		program sandbox.Program
		status  job.Status
		exit    int
		signal  string
		stdout  string
		stderr  string // a part
	}{
		"no limits":                {program: program(tell), status: job.Succeeded, stdout: "(-1, -1) (8388608, -1)\n"},
		"both, python":             {program: with(program(tell), job.Limits{AddressSpaceMB: 1 << 20, StackMB: 128}), status: job.Succeeded, stdout: "(1099511627776, 1099511627776) (134217728, 134217728)\n"},
		"both, bash":               {program: with(bash("ulimit -v; ulimit -s; ulimit -Hs; ulimit -v unlimited"), job.Limits{AddressSpaceMB: 100, StackMB: 16}), status: job.Failed, exit: 1, stdout: "102400\n16384\n16384\n", stderr: "ulimit"},
		"a deep program":           {program: with(stack("60"), job.Limits{StackMB: 64}), status: job.Succeeded, stdout: "main\nthread\n"},
		"a program too deep":       {program: with(stack("20"), job.Limits{}), status: job.Failed, exit: 139, signal: "SIGSEGV"},
		"as deep as there is":      {program: with(stack("126"), job.Limits{StackMB: 128}), status: job.Succeeded, stdout: "main\nthread\n"},
		"a small stack":            {program: with(stack("1"), job.Limits{StackMB: 1}), status: job.Failed, exit: 139, signal: "SIGSEGV"},
		"malloc is refused":        {program: with(inC(t, "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(malloc(60 << 20) ? \"yes\" : \"no\"); puts(malloc(60 << 20) ? \"yes\" : \"no\"); }"), job.Limits{AddressSpaceMB: 100}), status: job.Succeeded, stdout: "yes\nno\n"},
		"each process has its own": {program: with(bash(`for i in 1 2 3; do python3 -c 'x = bytearray(60 << 20); print(1)'; done`), job.Limits{AddressSpaceMB: 150}), status: job.Succeeded, stdout: "1\n1\n1\n"},
		"nothing can start":        {program: with(program("print(1)"), job.Limits{AddressSpaceMB: 1}), status: job.Failed, exit: 126, stderr: "cannot allocate memory"},
		"memory is still bounded":  {program: with(program("x = bytearray(100 << 20)"), job.Limits{AddressSpaceMB: 1000, MemoryMB: 64}), status: job.OutOfMemory, exit: 137, signal: "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, k := run(t, c.program)
			if o.Status != c.status || o.ExitCode != c.exit || o.Signal != c.signal || k.stdout.String() != c.stdout || !strings.Contains(k.stderr.String(), c.stderr) {
				t.Errorf("got %+v, %q, %.500q, compile step %+v", o, k.stdout.String(), k.stderr.String(), o.Compile)
			}
			if want := map[job.Status]string{job.OutOfMemory: "memory_mb"}[c.status]; o.Limit != want {
				t.Errorf("got the limit %q, want %q", o.Limit, want)
			}
		})
	}
	t.Run("with tests", func(t *testing.T) {
		t.Parallel()
		o, got := grade(t, with(stack("60"), job.Limits{StackMB: 64}), "a", "b")
		if o.Status != job.Succeeded || len(got) != 2 || got[1].stdout != "main\nthread\n" {
			t.Errorf("got %+v, %+v", o, got)
		}
	})
}
