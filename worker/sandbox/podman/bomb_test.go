package podman_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestMemoryBombs: while two sandboxes a core keep every core busy, and with them whoever
// watches, a job with memory_mb 256 is stopped before it holds 512 MiB of the host.
//
// It is not parallel: they are busy enough.
func TestMemoryBombs(t *testing.T) { //nolint:paralleltest // see above
	const limit, most = 256, 512 << 20
	p := open(t)
	ctx, stop := context.WithCancel(t.Context())
	var spinners sync.WaitGroup
	defer spinners.Wait()
	defer stop()
	var on []chan struct{}
	for range 2 * runtime.NumCPU() {
		spin := bash("echo on; while :; do :; done", limits(job.Limits{WallMS: 3_600_000})) // it is cancelled long before
		spin.Image = suite.image
		sink := &signalSink{on: make(chan struct{}, 1)}
		on = append(on, sink.on)
		spinners.Go(func() {
			if _, err := p.Run(ctx, spin, sink); !errors.Is(err, context.Canceled) {
				t.Errorf("a busy job ended before it was cancelled: %v", err)
			}
			close(sink.on) // for a receiver that still waits
		})
	}
	for _, c := range on {
		<-c
	}
	bombs := map[string]string{
		"one process": "x = bytearray(4 << 30)",
		"many processes": `
for i in range(40):
    if os.fork() == 0: x = bytearray(100 << 20); time.sleep(60)
time.sleep(60)`,
		"files": `
def fill(fd):
    while True:
        try: os.write(fd, b"x" * (64 << 20))
        except OSError: break
for path in ("/tmp/x", "/dev/shm/x", "x"): fill(os.open(path, os.O_CREAT | os.O_WRONLY))
for i in range(8): fill(os.memfd_create("x"))
time.sleep(60)`,
		// gVisor would commit it all in calls that no watch can stop half-way.
		"files made at once": `
for i in range(40):
    if os.fork() == 0: os.posix_fallocate(os.memfd_create("x"), 0, 250 << 20); time.sleep(60)
time.sleep(60)`,
		"mapped at once": `
import mmap
for i in range(40):
    if os.fork() == 0: x = mmap.mmap(-1, 250 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE); time.sleep(60)
time.sleep(60)`,
		"read at once": `
for i in range(40):
    if os.fork() == 0: x = open("/dev/zero", "rb", 0).read(250 << 20); time.sleep(60)
time.sleep(60)`,
	}
	for _, name := range namesInShort(1, 2, bombs) { // those at once: TestAbuse makes the like of the others
		source := bombs[name]
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one after the other
			// The output is more than anything on its way takes: the bomb waits for the sink.
			bomb := program("import os, sys, time\nsys.stdout.write('.' * (4 << 20)); sys.stdout.flush()\n"+source,
				limits(job.Limits{MemoryMB: limit, DiskMB: 1024, FileMB: 1024, OutputKB: 8192, WallMS: 120_000}))
			bomb.Image, bomb.JobID = suite.image, "bomb"
			sink := &gateSink{reached: make(chan struct{}), open: make(chan struct{})}
			var outcome sandbox.Outcome
			var err error
			over := make(chan struct{})
			go func() {
				defer close(over)
				outcome, err = p.Run(t.Context(), bomb, sink)
			}()
			<-sink.reached
			held, done, heldErr := podman.Held(processOf(t, "bomb"))
			close(sink.open)
			if heldErr != nil {
				<-over
				t.Fatal(heldErr)
			}
			defer done()
			var peak int64
			var longest time.Duration
			for last := time.Now(); ; {
				now, err := held()
				if err != nil {
					break // the sandbox has ended
				}
				peak, longest, last = max(peak, now), max(longest, time.Since(last)), time.Now()
				time.Sleep(time.Millisecond)
			}
			<-over
			t.Logf("held at most %d MiB, seen each %v or sooner; the agent saw %d MiB", peak>>20, longest, outcome.Usage.MemoryPeakBytes>>20)
			peak = max(peak, outcome.Usage.MemoryPeakBytes) // on a busy machine, seconds pass between two samples
			if err != nil || outcome.Status != job.OutOfMemory || peak < limit<<20 || peak >= most {
				t.Errorf("got %s, %v with at most %d MiB held, want out_of_memory with %d to %d MiB", outcome.Status, err, peak>>20, limit, most>>20)
			}
		})
	}
}

// gateSink holds its program back until the gate is open.
type gateSink struct {
	kept
	once    sync.Once
	reached chan struct{}
	open    chan struct{}
}

func (s *gateSink) Stdout(p []byte) error {
	s.once.Do(func() { close(s.reached) })
	<-s.open
	return s.kept.Stdout(p)
}

// processOf is the host's process of the job's sandbox.
func processOf(t *testing.T, jobID string) int {
	t.Helper()
	id, err := podmanCLI("ps", "-q", "--filter", "label=run.glovebox.job="+jobID, "--filter", "label=run.glovebox.instance="+instance)
	if err != nil || id == "" {
		t.Fatalf("got %q, %v, want a container of job %s", id, err, jobID)
	}
	out, err := podmanCLI("inspect", "--format", "{{.State.Pid}}", id)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 0 {
		t.Fatalf("got process %q of container %s", out, id)
	}
	return pid
}
