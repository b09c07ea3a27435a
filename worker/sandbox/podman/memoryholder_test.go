package podman_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// findMemoryHolder finds the process that keeps a preloaded program's memory.
const findMemoryHolder = `
import os, signal, sys, time
holder = next(int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) not in (1, os.getpid()))
`

// TestPreloadedMemoryHolder: what a program does to the process that holds its memory, or leaves
// beside it, changes neither its own end nor that nothing of it runs as its files are
// collected; and that process is not counted.
func TestPreloadedMemoryHolder(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, "memory-holder", 1)
	for name, c := range map[string]struct {
		source, stdout string
		limits         job.Limits
	}{
		"is let be":    {source: "print('x')", stdout: "x\n"},
		"is killed":    {source: findMemoryHolder + "os.kill(holder, 9); print('x')", stdout: "x\n"},
		"is stopped":   {source: findMemoryHolder + "os.kill(holder, signal.SIGSTOP); print('x')", stdout: "x\n"},
		"is signalled": {source: findMemoryHolder + "for s in signal.valid_signals() - {9, 19}: os.kill(holder, s)\nprint(os.path.exists(f'/proc/{holder}'))", stdout: "True\n"},
		"is traced":    {source: findMemoryHolder + "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.ptrace(16, holder, 0, 0), ctypes.get_errno())", stdout: "-1 1\n"},
		"has others beside it": {source: `
import os, sys
for i in range(2):
    if os.fork() == 0:
        os.setsid()
        n = 0
        while True:
            if os.fork():
                os._exit(0)
            n += 1
            open(f'left-{i}-{n % 4}', 'w').write(str(n))
print('x')
`, stdout: "x\n", limits: job.Limits{MemoryMB: 1024}},
		"is not counted": {source: `
import os, time
n = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(99)
        n += 1
except BlockingIOError:
    print(n)
`, stdout: "8\n", limits: job.Limits{Processes: 8, MemoryMB: 1024}},
	} {
		if name == "is traced" && runtime.GOARCH != "amd64" {
			continue
		}
		awaitPreloaded(t, p)
		sink := &kept{}
		began := time.Now()
		o, err := p.Run(t.Context(), program(c.source, asJobOf(pythonRuntime(t)), limits(c.limits)), sink)
		if err != nil || o.Status != job.Succeeded || !o.Preloaded || sink.stdout.String() != c.stdout || time.Since(began) > 3*gbtest.AtOnce {
			t.Errorf("%s: got %+v, %v, %q %q after %v, want %q", name, o, err, sink.stdout.String(), sink.stderr.String(), time.Since(began), c.stdout)
		}
	}
}
