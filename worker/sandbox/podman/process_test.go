package podman_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestDaemon: a child that left the session and holds stdout neither keeps the job
// open nor outlives it.
func TestDaemon(t *testing.T) {
	t.Parallel()
	gbtest.WhenIdle(t)
	began := time.Now()
	o, k := run(t, program(`
import os, time, signal
if os.fork() == 0:
    os.setsid()
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
    if os.fork() == 0:
        time.sleep(60) # the sandbox ends before, and it with that
        open('late', 'w').write('x')
        while True: print('still here', flush=True); time.sleep(1)
    os._exit(0)
print('done', flush=True)
`, limits(job.Limits{WallMS: 200_000})))
	if o.Status != job.Succeeded || k.stdout.String() != "done\n" || k.names() != "" {
		t.Errorf("got %+v, %q, artifacts %q", o, k.stdout.String(), k.names())
	}
	if took := time.Since(began); took > 100*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestProcesses: the limit counts processes and threads, and is exact.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const count = `
import os, time, threading
n = 0
try:
    for i in range(200):
        %s
        n += 1
except (OSError, RuntimeError) as e:
    pass
print(n, flush=True)
os._exit(0)
`
	for name, start := range map[string]string{
		"processes": "\n        if os.fork() == 0: time.sleep(30); os._exit(0)",
		"threads":   "threading.Thread(target=time.sleep, args=(30,)).start()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, k := run(t, program(strings.Replace(count, "%s", start, 1), limits(job.Limits{Processes: 20})))
			n, err := strconv.Atoi(strings.TrimSpace(k.stdout.String()))
			if err != nil || n != 19 {
				t.Errorf("got %d beside the first (%+v, %s), want 19", n, o, k.stderr.String())
			}
		})
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		o, k := run(t, program("import os\nprint(1)\ntry: os.fork()\nexcept OSError as e: print(e.strerror)", limits(job.Limits{Processes: 1})))
		if o.Status != job.Succeeded || k.stdout.String() != "1\nResource temporarily unavailable\n" {
			t.Errorf("got %+v %q %q", o, k.stdout.String(), k.stderr.String())
		}
	})
	t.Run("fork bomb", func(t *testing.T) {
		t.Parallel()
		o, k := run(t, program("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", limits(job.Limits{WallMS: 1500, MemoryMB: 512})))
		if o.Status != job.TimedOut || o.Usage.WallMS > gbtest.AtOnce.Milliseconds() {
			t.Errorf("got %+v %q", o, k.stderr.String())
		}
	})
}
