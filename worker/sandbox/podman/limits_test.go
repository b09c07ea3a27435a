package podman_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// exceeds is a program that goes over one limit, and how that is told.
type exceeds struct {
	limits job.Limits
	source string
	status job.Status
	stderr string // a part
	check  func(t *testing.T, o sandbox.Outcome, k *kept)
	// provenBy is the test that has this limit instead, where no program can show here
	// that it went over.
	provenBy string
}

// limitCases has one for each field of job.Limits, by its name on the wire.
var limitCases = map[string]exceeds{
	"wall_ms":   {limits: job.Limits{WallMS: 500}, source: "import time; time.sleep(100)", status: job.TimedOut, stderr: "Execution timed out"},
	"cpu_ms":    {limits: job.Limits{CPUMS: 500, WallMS: 100_000}, source: "while True: pass", status: job.TimedOut, stderr: "Execution timed out"},
	"memory_mb": {limits: job.Limits{MemoryMB: 64}, source: "x = bytearray(1 << 30)", status: job.OutOfMemory},
	// A share is the host's cgroup's to bound, and nothing but the kernel tells.
	"cpus":      {provenBy: "TestHardCPU"},
	"processes": {limits: job.Limits{Processes: 10}, source: "import os, time\nfor i in range(10):\n  if os.fork() == 0: time.sleep(100)", status: job.Failed, stderr: "Resource temporarily unavailable"},
	"address_space_mb": {limits: job.Limits{AddressSpaceMB: 200}, source: "x = bytearray(190 << 20)", status: job.OutOfMemory, stderr: "MemoryError", check: func(t *testing.T, o sandbox.Outcome, _ *kept) {
		t.Helper()
		if o.Limit != "address_space_mb" || o.ExitCode != 1 || o.Signal != "" {
			t.Errorf("got %+v", o)
		}
	}},
	"stack_mb":          {provenBy: "TestProcessLimits"},
	"compile_wall_ms":   {provenBy: "TestCompile"},
	"compile_memory_mb": {provenBy: "TestCompile"},
	"open_files":        {limits: job.Limits{OpenFiles: 32}, source: "x = [open('/dev/null') for i in range(30)]", status: job.Failed, stderr: "Too many open files"},
	"output_kb": {limits: job.Limits{OutputKB: 4}, source: "import os, time\nos.write(2, bytes(4096)); os.write(1, bytes(4096)); os.write(2, b'x'); time.sleep(100)", status: job.OutputLimitExceeded, check: func(t *testing.T, _ sandbox.Outcome, k *kept) {
		t.Helper()
		if k.stdout.Len() > 4096 || k.stderr.Len() > 4096 {
			t.Errorf("got %d and %d bytes of output, want 4096 at most", k.stdout.Len(), k.stderr.Len())
		}
	}},
	"file_mb":     {limits: job.Limits{FileMB: 2}, source: "open('x', 'wb').write(bytes(3 << 20))", status: job.Failed, stderr: "File too large"},
	"disk_mb":     {limits: job.Limits{DiskMB: 4}, source: "for i in range(5): open(f'{i}', 'wb').write(bytes(1 << 20))", status: job.Failed, stderr: "No space left"},
	"artifacts":   {limits: job.Limits{Artifacts: 2}, source: "for i in range(3): open(f'{i}', 'w')", status: job.Succeeded, check: skips("2", "is beyond limits.artifacts (2)")},
	"artifact_mb": {limits: job.Limits{ArtifactMB: 1}, source: "open('x', 'wb').write(bytes((1 << 20) + 1))", status: job.Succeeded, check: skips("x", "is larger than limits.artifact_mb (1048577 bytes)")},
	// Refused when it is submitted: nothing is run.
	"source_kb": {limits: job.Limits{SourceKB: 1}, source: strings.Repeat("#", 1025)},
}

// skips is the check for a file that is not kept.
func skips(name, reason string) func(*testing.T, sandbox.Outcome, *kept) {
	return func(t *testing.T, o sandbox.Outcome, k *kept) {
		t.Helper()
		if want := (job.Skipped{Name: name, Reason: reason}); o.SkippedTotal != 1 || len(o.Skipped) != 1 || o.Skipped[0] != want {
			t.Errorf("got %d skipped, %+v, kept %s, want only %+v", o.SkippedTotal, o.Skipped, k.names(), want)
		}
	}
}

// TestLimits: every limit there is has a program that exceeds it.
func TestLimits(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[job.Limits]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		c, ok := limitCases[name]
		if c.provenBy != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !ok {
				t.Fatal("no program exceeds this limit: add one to limitCases")
			}
			if c.status == "" {
				err := job.Spec{Runtime: "python", Source: c.source, Limits: c.limits}.Check([]string{"python"}, nil, job.DefaultMaximums)
				var invalid job.Invalid
				if !errors.As(err, &invalid) || !strings.Contains(fmt.Sprint(err), "limits."+name) {
					t.Errorf("got %v, want a refusal that names limits.%s", err, name)
				}
				return
			}
			o, k := run(t, program(c.source, limits(c.limits)))
			if o.Status != c.status || !strings.Contains(k.stderr.String(), c.stderr) {
				t.Errorf("got %+v\nstderr %.500q\nwant %s, %q", o, k.stderr.String(), c.status, c.stderr)
			}
			if c.check != nil {
				c.check(t, o, k)
			}
		})
	}
}

// TestUsage: what is told of CPU time and memory is what was used, by one process and by
// many.
func TestUsage(t *testing.T) {
	t.Parallel()
	const each = "import os, time\nfor i in range(3):\n  if os.fork() == 0: break\nelse: i = 3\n"
	const end = "\nif i < 3: os._exit(0)\nfor i in range(3): os.wait()\n"
	// Each holds its memory until all do, and have done so for long enough to be seen.
	const together = "if i < 3: os.write(held[1], b'.'); os.close(go[1]); os.read(go[0], 1)\nelse:\n  for n in range(3): os.read(held[0], 1)\n  time.sleep(8); os.close(go[1])"
	for name, tt := range map[string]struct {
		source      string
		least, most int64 // of memory, MiB
	}{
		"one second of CPU":              {"import os, time\nwhile time.process_time() < 1: pass\n", 1, 64},
		"one second of CPU in processes": {each + "while time.process_time() < 0.25: pass" + end, 1, 96},
		"100 MiB":                        {"import os, time\nx = bytearray(100 << 20)\n", 100, 130},
		"100 MiB in processes":           {"import os; held, go = os.pipe(), os.pipe()\n" + each + "x = bytearray(25 << 20)\n" + together + end, 100, 150},
		"100 MiB in files":               {"import os, time\nfor p in ('/work/x', '/dev/shm/x'): open(p, 'wb').write(bytes(50 << 20))\n", 100, 200},
		"wall":                           {"import os, time\ntime.sleep(1)\n", 1, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The program's own figures: its start, which a busy host makes longer, is in them,
			// and it ends at once after it has told them.
			o, k := run(t, program("import time; began = time.monotonic()\n"+tt.source+"print(round(1000 * sum(os.times()[:4])), round(1000 * (time.monotonic() - began)), flush=True); os._exit(0)", limits(job.Limits{WallMS: 60_000, Artifacts: 1, ArtifactMB: 1})))
			var cpu, wall int64
			if _, err := fmt.Sscan(k.stdout.String(), &cpu, &wall); err != nil {
				t.Fatalf("%v: %+v\n%s%s", err, o, k.stdout.String(), k.stderr.String())
			}
			u := o.Usage
			t.Logf("the program counts %d ms of CPU in %d ms; got %d in %d, %d MiB", cpu, wall, u.CPUMS, u.WallMS, u.MemoryPeakBytes>>20)
			// Beside the tenth: gVisor's ticks, and what the program can't see: the agent's step
			// until it becomes the program, and its end. A busy host makes both longer, as gVisor
			// counts a tick for whoever is not asleep.
			slack := cpu/10 + 50
			if unseen := max(u.WallMS-wall, 0); u.CPUMS < cpu-slack || u.CPUMS > cpu+slack+unseen {
				t.Errorf("cpu: got %d ms, want %d to %d", u.CPUMS, cpu-slack, cpu+slack+unseen)
			}
			if u.WallMS < wall {
				t.Errorf("wall: got %d ms, want at least the %d that the program saw", u.WallMS, wall)
			}
			if u.MemoryPeakBytes < tt.least<<20 || u.MemoryPeakBytes > tt.most<<20 {
				t.Errorf("memory: got %d MiB, want %d to %d", u.MemoryPeakBytes>>20, tt.least, tt.most)
			}
			if o.Startup <= 0 || !strings.HasPrefix(o.OCIRuntime, "runsc") || o.LimitsEnforced == "" {
				t.Errorf("got %+v", o)
			}
		})
	}
}
