package podman_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// pythonRuntime is what jobs of the suite's runtime are run with.
func pythonRuntime(tb testing.TB) runtimes.Runtime {
	tb.Helper()
	open(tb) // a program as of a job of it has the suite's image
	return preloadingRuntime(tb, "python")
}

func preloadingRuntime(tb testing.TB, name string) runtimes.Runtime {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup(name)
	if !ok || r.Preload == nil {
		tb.Fatalf("there is no runtime %s that can be preloaded", name)
	}
	return r
}

// preloadOf returns the runtime's preload, which takes programs with any words.
func preloadOf(r runtimes.Runtime) *podman.Preload {
	return &podman.Preload{
		Command: r.PreloadCommand(), Compile: len(r.Compile) > 0, Env: r.Preload.Environment(r.Env), MemoryMB: r.Preload.MemoryMB,
		SnapshotEnv: r.Preload.SnapshotEnvironment(r.Env), SnapshotWords: r.Preload.SnapshotWords,
	}
}

// asJobOf makes the program one as the worker makes it of a job of the runtime.
func asJobOf(r runtimes.Runtime) func(*sandbox.Program) {
	return func(p *sandbox.Program) {
		p.Image = suite.image
		env := map[string]string{}
		for k, v := range r.Env {
			env[k] = v
		}
		for k, v := range p.Env {
			env[k] = v
		}
		p.Env = env
	}
}

// preloaded is warm with a preload.
func preloaded(tb testing.TB, worker string, most int, log ...*slog.Logger) *podman.Sandboxes {
	tb.Helper()
	open(tb) // it says which image
	r := pythonRuntime(tb)
	preload := *preloadOf(r)
	preload.Words = r.Preload.Words
	return keepWarm(tb, worker, most, map[string]podman.Preload{suite.image: preload}, log...)
}

func awaitPreloaded(tb testing.TB, p *podman.Sandboxes) {
	tb.Helper()
	awaitPreloadedOf(tb, p, suite.image)
}

func awaitPreloadedOf(tb testing.TB, p *podman.Sandboxes, image string) {
	tb.Helper()
	deadline := time.Now().Add(5 * time.Minute) // a busy machine has few quiet seconds
	for p.PreloadedOf(image) == 0 {
		if time.Now().After(deadline) {
			tb.Fatal("no program is preloaded after five minutes")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPreloaded: a program that matches becomes the preloaded process, and another does not.
func TestPreloaded(t *testing.T) {
	t.Parallel()
	withAndWithoutSnapshots(t, "preloaded", 1, testPreloaded)
}

// withAndWithoutSnapshots runs a test on sandboxes that preload by themselves, and on ones that go on
// from a snapshot; in short, on the latter alone: what preloads by itself takes twice as long.
func withAndWithoutSnapshots(t *testing.T, worker string, most int, test func(*testing.T, *podman.Sandboxes)) {
	t.Helper()
	names := []string{fromSnapshots + worker}
	if !testing.Short() {
		names = append(names, worker)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, preloaded(t, name, most))
		})
	}
}

func testPreloaded(t *testing.T, p *podman.Sandboxes) {
	t.Helper()
	python := asJobOf(pythonRuntime(t))
	for name, c := range map[string]struct {
		program sandbox.Program
		want    bool
		stdout  string
	}{
		"hello":           {program("import sys; print('numpy' in sys.modules)", python), true, "True\n"},
		"arguments":       {program("import sys; print(sys.argv)", python, command("python3", "main.py", "-x", "ä")), true, "['main.py', '-x', 'ä']\n"},
		"stdin":           {program("print(input())", python, func(p *sandbox.Program) { p.Stdin = []byte("abc\n") }), true, "abc\n"},
		"little memory":   {program("print(1)", python, limits(job.Limits{MemoryMB: 16})), true, "1\n"},
		"another command": {program("print(1)", python, command("python3", "./main.py")), false, "1\n"},
		"a shell's line": {program("print(1)", python, func(p *sandbox.Program) {
			_, p.Command = job.Commands{Run: "python3 main.py"}.Argv(nil)
		}), false, "1\n"},
		"streams in one":      {program("import sys; print(1, file=sys.stderr)", python, func(p *sandbox.Program) { p.MergeStderr = true }), false, "1\n"},
		"an address space":    {program("print(1)", python, limits(job.Limits{AddressSpaceMB: 1000})), false, "1\n"},
		"a stack":             {program("print(1)", python, limits(job.Limits{StackMB: 16})), false, "1\n"},
		"truncated output":    {program("print(1)", python, func(p *sandbox.Program) { p.TruncateOutput = true }), true, "1\n"},
		"another interpreter": {program("print(1)", python, command("python3", "-S", "main.py")), false, "1\n"},
		"another environment": {program("print(1)", python, func(p *sandbox.Program) { p.Env["PYTHONHASHSEED"] = "0" }), false, "1\n"},
		"a module of its own": {program("import random; print(random.mine)", python, func(p *sandbox.Program) {
			p.Files = append(p.Files, sandbox.File{Name: "random.py", Content: []byte("mine = 1")})
		}), false, "1\n"},
	} {
		awaitPreloaded(t, p)
		sink := &kept{}
		o, err := p.Run(t.Context(), c.program, sink)
		if err != nil || o.Status != job.Succeeded || !o.Warm || o.Preloaded != c.want || sink.stdout.String() != c.stdout {
			t.Errorf("%s: got %+v, %v, %q %q, want %q, preloaded %v", name, o, err, sink.stdout.String(), sink.stderr.String(), c.stdout, c.want)
		}
		t.Logf("%s: startup %v, exited %v, ended %v, usage %+v", name, o.Startup, o.Timing.Exited-o.Startup, o.Timing.Ended-o.Timing.Exited, o.Usage)
	}
}

// TestPreloadFails: a preload that fails, in whatever way, costs a program nothing but its
// own start.
func TestPreloadFails(t *testing.T) {
	t.Parallel()
	open(t)
	r := pythonRuntime(t)
	for name, c := range map[string]struct {
		preload podman.Preload
		says    string // what the log must contain
	}{
		"fails":        {podman.Preload{Command: []string{"python3", "main.py"}, Env: map[string]string{"MPLBACKEND": "nonsense"}, MemoryMB: 200}, "nonsense"},
		"is not there": {podman.Preload{Command: []string{"no-such-thing"}, MemoryMB: 200}, "command not found"},
		"ends":         {podman.Preload{Command: []string{"true"}, MemoryMB: 200}, "it has ended"},
		"is too much":  {podman.Preload{Command: []string{"python3", "main.py"}, Env: r.Env, MemoryMB: 20}, "more than preload.memory_mb (20)"},
		"never ends":   {podman.Preload{Command: []string{"bash", "-c", "echo x; while :; do sleep 1; done"}, MemoryMB: 200}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := &gbtest.Buffer{}
			p := keepWarm(t, "preload-"+strings.ReplaceAll(name, " ", "-"), 1, map[string]podman.Preload{suite.image: c.preload}, slog.New(slog.NewTextHandler(said, nil)))
			for deadline := time.Now().Add(gbtest.Patience); !strings.Contains(said.String(), c.says); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the log never says %q: %s", c.says, said.String())
				}
			}
			for range 2 {
				awaitWarm(t, p, 1)
				sink := &kept{}
				o, err := p.Run(t.Context(), program("print('ok')", asJobOf(r)), sink)
				if err != nil || o.Status != job.Succeeded || !o.Warm || o.Preloaded || sink.stdout.String() != "ok\n" || o.Usage.MemoryPeakBytes > 60<<20 {
					t.Errorf("got %+v, %v, %q %q, want ok in a warm sandbox", o, err, sink.stdout.String(), sink.stderr.String())
				}
			}
		})
	}
}

// TestPreloadedCases: what the runtime must be able to do, it does preloaded.
func TestPreloadedCases(t *testing.T) {
	t.Parallel()
	withAndWithoutSnapshots(t, "cases", 1, testPreloadedCases)
}

func testPreloadedCases(t *testing.T, p *podman.Sandboxes) {
	t.Helper()
	r := pythonRuntime(t)
	for _, c := range casesOf(t, r) {
		awaitPreloaded(t, p)
		sink, program := &kept{}, caseProgram(r, c)
		program.Image = suite.image
		o, err := p.Run(t.Context(), program, sink)
		if err != nil || !o.Preloaded {
			t.Errorf("%s: got %+v, %v, want a preloaded program", c.Name, o, err)
		}
		asWanted(t, c, o, sink)
	}
}
