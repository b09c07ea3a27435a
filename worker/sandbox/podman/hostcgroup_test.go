package podman_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestSelfTest: the self-test finds what this host really does, and results say so.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	open(t)
	p := openAs(t, "self-test")
	defer p.Close()
	found, err := p.SelfTest(t.Context(), suite.image)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", found)
	delegated := gbtest.Leaves() != ""
	if found.Hard != delegated || (found.Reason == "") != delegated {
		t.Errorf("got %+v where cgroups delegated is %v", found, delegated)
	}
	program := bash("echo hello")
	program.Image = suite.image
	var k kept
	o, err := p.Run(t.Context(), program, &k)
	want := "soft"
	if delegated {
		want = "hard"
	}
	if err != nil || o.LimitsEnforced != want || k.stdout.String() != "hello\n" {
		t.Errorf("got %+v, %q, %v, want limits enforced %s", o, k.stdout.String(), err, want)
	}
	if _, err := p.SelfTest(t.Context(), "localhost/glovebox/none:such"); err == nil {
		t.Error("an image that isn't there: got no error")
	}
}

// hard opens Podman where the kernel bounds its sandboxes. A self-test that comes too late, as on an emulated machine, is made again.
func hard(t *testing.T, worker string) *podman.Sandboxes {
	t.Helper()
	gbtest.Require(t, "cgroups")
	open(t)
	p := openAs(t, worker)
	t.Cleanup(p.Close)
	found, err := p.SelfTest(t.Context(), suite.image)
	for more := 4; more > 0 && errors.Is(err, context.DeadlineExceeded); more-- {
		found, err = p.SelfTest(t.Context(), suite.image)
	}
	if err != nil || !found.Hard {
		t.Fatalf("got %+v, %v, want hard limits", found, err)
	}
	return p
}

// started runs a program and returns the cgroup of its sandbox, once the program runs, and
// its end, which is no error.
func started(t *testing.T, p *podman.Sandboxes, program sandbox.Program, cpuMax string) (cgroup string, end func() (sandbox.Outcome, *kept)) {
	t.Helper()
	cgroup, done := begun(t, p, program, cpuMax)
	return cgroup, func() (sandbox.Outcome, *kept) {
		o, k, err := done()
		if err != nil {
			t.Fatalf("%v\nstderr: %s", err, k.stderr.String())
		}
		return o, k
	}
}

// begun is started for a program that may end in any way.
func begun(t *testing.T, p *podman.Sandboxes, program sandbox.Program, cpuMax string) (cgroup string, end func() (sandbox.Outcome, *kept, error)) {
	t.Helper()
	program.Image = suite.image
	program.Files[0].Content = append([]byte("echo "+runs+"\n"), program.Files[0].Content...)
	k := &announced{running: make(chan struct{})}
	type ending struct {
		outcome sandbox.Outcome
		err     error
	}
	done := make(chan ending, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	go func() {
		o, err := p.Run(ctx, program, k)
		done <- ending{o, err}
	}()
	for ctx.Err() == nil {
		found, err := filepath.Glob(filepath.Join(gbtest.Leaves(), "*", "cpu.max"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == cpuMax {
				cgroup = filepath.Dir(file)
			}
		}
		if cgroup != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case <-k.running:
	case e := <-done:
		t.Fatalf("got %+v, %v, before the program ran\nstderr: %s", e.outcome, e.err, k.stderr.String())
	}
	return cgroup, func() (sandbox.Outcome, *kept, error) {
		e := <-done
		return e.outcome, &k.kept, e.err
	}
}

// announced keeps what a program prints behind its first line, runs, which says that the bounds of its sandbox are the job's.
type announced struct {
	kept

	running chan struct{}
}

const runs = "runs"

func (a *announced) Stdout(p []byte) error {
	if line := []byte(runs + "\n"); a.stdout.Len() == 0 && bytes.HasPrefix(p, line) {
		close(a.running)
		p = p[len(line):]
	}
	return a.kept.Stdout(p)
}

// TestHardLimits: the job's figures are in the kernel's files as soon as it runs, though
// the sandbox was made with a whole CPU, and nothing of them is left when it is gone.
func TestHardLimits(t *testing.T) { testHardLimits(t, hard(t, "hard-limits"), false) }

// TestHardLimitsWarm: the same holds for a sandbox that was made for any job.
func TestHardLimitsWarm(t *testing.T) {
	p := hard(t, "hard-limits-warm")
	p.KeepWarm(t.Context(), podman.Warm{
		Images: map[string]job.Limits{suite.image: job.Limits{}.Filled(job.Limits{})}, MaxMemoryMB: 1024, Most: 1, MemoryMB: podman.IdleMB,
	})
	awaitWarm(t, p, 1)
	testHardLimits(t, p, true)
}

func testHardLimits(t *testing.T, p *podman.Sandboxes, warm bool) {
	t.Helper()
	cgroup, end := started(t, p, bash("sleep 3", limits(job.Limits{MemoryMB: 128, CompileMemoryMB: 128, Processes: 64, CPUs: 0.31, WallMS: 120_000})), "31000 100000")
	for file, want := range map[string]string{
		"memory.max": strconv.Itoa((128 + 64) << 20), "memory.swap.max": "0", "memory.oom.group": "1",
		"cpu.max": "31000 100000", "pids.max": "384",
	} {
		if b, err := os.ReadFile(filepath.Join(cgroup, file)); err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s: got %q, %v, want %s", file, b, err, want)
		}
	}
	if o, _ := end(); o.Status != job.Succeeded || o.LimitsEnforced != "hard" || o.Warm != warm {
		t.Errorf("got %+v, want it to succeed in a sandbox that was warm: %v", o, warm)
	}
	p.Close()
	if _, err := os.Stat(cgroup); !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}

// TestHardCPU: a program that would use every CPU gets its share.
func TestHardCPU(t *testing.T) {
	p := hard(t, "hard-cpu")
	cgroup, end := started(t, p, bash("while :; do :; done & while :; do :; done", limits(job.Limits{CPUs: 0.47, WallMS: 40_000, CPUMS: 120_000})), "47000 100000")
	used := func() time.Duration {
		b, err := os.ReadFile(filepath.Join(cgroup, "cpu.stat"))
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(strings.NewReader(string(b))); lines.Scan(); {
			if n, ok := strings.CutPrefix(lines.Text(), "usage_usec "); ok {
				us, err := strconv.ParseInt(n, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return time.Duration(us) * time.Microsecond
			}
		}
		t.Fatalf("cpu.stat has no usage_usec: %s", b)
		return 0
	}
	time.Sleep(2 * time.Second)
	from, cpu := time.Now(), used()
	time.Sleep(6 * time.Second)
	share := float64(used()-cpu) / float64(time.Since(from))
	t.Logf("cpus 0.47: used %.3f", share)
	if share > 0.52 {
		t.Errorf("got %.3f of a CPU, want at most 0.47", share)
	}
	if o, _ := end(); o.Status != job.TimedOut {
		t.Errorf("got %+v", o)
	}
}

// TestLimitsRewritten: a sandbox that runs is bounded by what its limits are changed to.
// The agent believes in the old ones, so it is the kernel that ends the program.
func TestLimitsRewritten(t *testing.T) {
	p := hard(t, "limits-rewritten")
	cgroup, end := started(t, p, bash("sleep 5; tail /dev/zero | wc -c", limits(job.Limits{MemoryMB: 2048, CPUs: 0.83, WallMS: 300_000})), "83000 100000")
	if err := os.WriteFile(filepath.Join(cgroup, "memory.max"), []byte(strconv.Itoa(96<<20)), 0); err != nil {
		t.Fatal(err)
	}
	o, k := end()
	t.Logf("%+v", o)
	if o.Status != job.OutOfMemory || o.ExitCode != 137 || o.Signal != "SIGKILL" || k.stdout.Len() > 0 {
		t.Errorf("got %+v, %q", o, k.stdout.String())
	}
}

// TestHardMemory: whoever ends it, the agent or the kernel, a memory bomb is out of memory,
// and the neighbour finishes.
func TestHardMemory(t *testing.T) {
	p := hard(t, "hard-memory")
	_, bomb := started(t, p, bash("for i in 1 2 3 4; do tail /dev/zero & done; wait", limits(job.Limits{MemoryMB: 96, CPUs: 0.61, WallMS: 300_000})), "61000 100000")
	_, neighbour := started(t, p, bash("sleep 1; echo fine", limits(job.Limits{CPUs: 0.37, WallMS: 120_000})), "37000 100000")
	if o, _ := bomb(); o.Status != job.OutOfMemory {
		t.Errorf("got %+v", o)
	}
	if o, k := neighbour(); o.Status != job.Succeeded || k.stdout.String() != "fine\n" {
		t.Errorf("neighbour: got %+v, %q", o, k.stdout.String())
	}
}

// TestHardMemoryOfAll: a sandbox that the kernel ends because all together have too much has not run out of its own memory.
func TestHardMemoryOfAll(t *testing.T) {
	p := hard(t, "memory-of-all")
	_, end := begun(t, p, bash("sleep 5; tail /dev/zero | wc -c", limits(job.Limits{MemoryMB: 2048, CPUs: 0.79, WallMS: 300_000})), "79000 100000")
	bound := func(memory string) {
		if err := os.WriteFile(filepath.Join(gbtest.Leaves(), "memory.max"), []byte(memory), 0); err != nil {
			t.Fatal(err)
		}
	}
	defer bound("max")
	bound(strconv.Itoa(128 << 20))
	if o, _, err := end(); err == nil {
		t.Errorf("got %+v, want an error", o)
	} else {
		t.Log(err)
	}
}

// TestHardProcesses: the host's own bound of a sandbox's processes is there, above what the
// agent lets pass: rewritten, it refuses what the agent would allow.
func TestHardProcesses(t *testing.T) {
	p := hard(t, "hard-processes")
	cgroup, _ := started(t, p, bash("sleep 5; for i in {1..60}; do sleep 60 & done; echo still here; sleep 60", limits(job.Limits{Processes: 64, CPUs: 0.53, WallMS: 120_000})), "53000 100000")
	now, err := os.ReadFile(filepath.Join(cgroup, "pids.current"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(now)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cgroup, "pids.max"), []byte(strconv.Itoa(n+10)), 0); err != nil {
		t.Fatal(err)
	}
	refused := false
	for deadline := time.Now().Add(time.Minute); !refused && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		events, err := os.ReadFile(filepath.Join(cgroup, "pids.events"))
		if err != nil {
			refused = true // the sandbox has ended for it: nothing else ends it so soon
			break
		}
		refused = strings.Contains(string(events), "max ") && !strings.Contains(string(events), "max 0\n")
	}
	if !refused {
		t.Error("the kernel refused no process")
	}
}

// TestLimitMissing: where sandboxes are bounded, one without a bound is not made.
func TestLimitMissing(t *testing.T) {
	hard(t, "limit-missing")
	conn, err := bindings.NewConnection(t.Context(), "unix://"+suite.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := specgen.NewSpecGenerator(suite.image, false)
	s.Name = "glovebox-limit-missing"
	s.Command = []string{"true"}
	if _, err := containers.CreateWithSpec(conn, s, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(conn)
		if _, err := containers.Remove(ctx, s.Name, new(containers.RemoveOptions).WithForce(true)); err != nil {
			t.Error(err)
		}
	})
	if err := containers.Start(conn, s.Name, nil); err == nil || !strings.Contains(err.Error(), "refuse a sandbox without") {
		t.Errorf("got %v, want a refusal", err)
	}
	// The self-test's own goes in the background.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		left, err := os.ReadDir(gbtest.Leaves())
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return !e.IsDir() })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left cgroups %s", left)
		}
	}
}
