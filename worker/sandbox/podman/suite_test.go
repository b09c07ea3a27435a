package podman_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// modules are those of CPython's own tests that look at what is put into a program's
// interpreter: its streams, hooks, environment, processes and end.
var modules = strings.Fields(`
	test_atexit test_bdb test_bufio test_builtin test_cmd test_cmd_line test_cmd_line_script test_code test_codeop test_contextlib
	test_cprofile test_csv test_exceptions test_fileio test_fork1 test_gc test_io test_json test_logging test_multiprocessing_main_handling
	test_os test_pdb test_pickle test_popen test_posix test_pprint test_print test_profile test_pty test_resource test_runpy
	test_signal test_site test_subprocess test_support test_sys test_sys_setprofile test_sys_settrace test_tempfile test_textwrap test_threading
	test_threadsignals test_trace test_traceback test_tracemalloc test_unittest test_wait3 test_wait4 test_warnings test_weakref`)

// differences are tests that don't come to the same with and without what Glovebox puts into
// Python, by how Python was started; runtimes/README.md has the reasons.
var differences = map[string][]string{
	"test.test_site.StartupImportTests.test_startup_imports": {"cold", "warm", "preloaded"},
}

// TestPythonSuite runs CPython's own tests with and without what Glovebox puts into
// Python (runtimes/python): in a cold, a warm and a preloaded sandbox, each comes to what it
// comes to in a sandbox with a Python of Debian's alone. GLOVEBOX_PYTHON_SUITE says which
// modules, "all" or some names; it builds two images, so `make test` leaves it out.
func TestPythonSuite(t *testing.T) {
	t.Parallel()
	chosen := strings.Fields(os.Getenv("GLOVEBOX_PYTHON_SUITE"))
	if len(chosen) == 0 {
		t.Skip("make python-suite runs it")
	}
	if chosen[0] == "all" {
		chosen = modules
	}
	open(t)
	ours, bare := suiteImages(t)
	r := pythonRuntime(t)
	_, argv := r.Command("", nil)
	warm := keepWarmOf(t, "suite-warm", ours, nil)
	preloaded := keepWarmOf(t, "suite-preloaded", ours, &podman.Preload{Command: argv, Env: r.Env, MemoryMB: r.Preload.MemoryMB})
	source, err := os.ReadFile("testdata/suite.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range chosen {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			of := func(p *podman.Sandboxes, image string) (map[string]string, sandbox.Outcome) {
				program := program(string(source), asJobOf(r), command("python3", "main.py", module), limits(job.Limits{
					WallMS: 300_000, CPUMS: 600_000, MemoryMB: 512, Processes: 512, OpenFiles: 1024, OutputKB: 8192, // and a directory of the size that warm ones have
				}))
				program.Image = image
				return outcomesOf(t, p, program)
			}
			plain, _ := of(suite.podman, bare)
			if len(plain) == 0 {
				t.Fatal("no test was run")
			}
			t.Logf("%d tests", len(plain))
			// Some of these tests fail now and then on a busy machine: what counts is a difference
			// that comes twice.
			compare := func(how string, run func() map[string]string) {
				found := differ(plain, run(), how)
				if len(found) == 0 {
					return
				}
				again := differ(plain, run(), how)
				for _, id := range slices.Sorted(maps.Keys(found)) {
					if is, twice := again[id]; twice {
						t.Errorf("%s: %s\n  plain:  %s\n  %s: %s", how, id, plain[id], how, is)
					} else {
						t.Logf("%s: %s once: %s", how, id, found[id])
					}
				}
			}
			compare("cold", func() map[string]string { got, _ := of(suite.podman, ours); return got })
			for _, c := range []struct {
				how     string
				waiting func() int
				podman  *podman.Sandboxes
				is      func(sandbox.Outcome) bool
			}{
				{"warm", func() int { return warm.WarmOf(ours) }, warm, func(o sandbox.Outcome) bool { return o.Warm }},
				{"preloaded", func() int { return preloaded.PreloadedOf(ours) }, preloaded, func(o sandbox.Outcome) bool { return o.Preloaded }},
			} {
				compare(c.how, func() map[string]string {
					for range 5 { // another module may take the one that waits
						await(t, func() bool { return c.waiting() > 0 })
						if got, o := of(c.podman, ours); c.is(o) {
							return got
						}
					}
					t.Fatalf("%s: it never is", c.how)
					return nil
				})
			}
		})
	}
}

// differ are the tests that come to another end than plainly, and to which. One that fails
// plainly says nothing.
func differ(plain, got map[string]string, how string) map[string]string {
	found := map[string]string{}
	for id, was := range plain {
		if k := ending(was); k != "failed" && k != ending(got[id]) && !slices.Contains(differences[id], how) {
			found[id] = got[id]
		}
	}
	for id, is := range got {
		if plain[id] == "" && !slices.Contains(differences[id], how) {
			found[id] = is
		}
	}
	return found
}

func await(t *testing.T, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no sandbox waits after two minutes")
		}
	}
}

func keepWarmOf(tb testing.TB, worker, image string, preload *podman.Preload) *podman.Sandboxes {
	tb.Helper()
	p := openAs(tb, worker)
	tb.Cleanup(p.Close)
	if _, err := p.SelfTest(tb.Context(), image); err != nil {
		tb.Fatal(err)
	}
	w := podman.Warm{Images: map[string]job.Limits{image: job.Limits{}.Filled(job.Limits{})}, Preloads: map[string]podman.Preload{}, MaxMemoryMB: 1024, Most: 2, MemoryMB: 2 * podman.IdleMB}
	w.Snapshots, w.OnlySnapshots = snapshotsOf(worker)
	if preload != nil {
		w.MemoryMB += 2 * preload.MemoryMB
		w.Preloads[image] = *preload
	}
	p.KeepWarm(tb.Context(), w)
	return p
}

// ending is what became of a test, without the words that tell of one run.
func ending(outcome string) string {
	kind, _, _ := strings.Cut(outcome, ":")
	return kind
}

func outcomesOf(t *testing.T, p *podman.Sandboxes, program sandbox.Program) (map[string]string, sandbox.Outcome) {
	t.Helper()
	sink := &kept{keepBytes: true}
	o, err := p.Run(t.Context(), program, sink)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range sink.artifacts {
		if a.name == "results.json" {
			var outcomes map[string]string
			if err := json.Unmarshal([]byte(a.bytes), &outcomes); err != nil {
				t.Fatal(err)
			}
			return outcomes, o
		}
	}
	return map[string]string{"the module": fmt.Sprintf("failed: %s, exit code %d, %.3000s", o.Status, o.ExitCode, sink.stderr.String())}, o
}

// suiteImages builds two images, of Python's runtime with its own tests, and of that
// without what Glovebox puts into Python.
func suiteImages(t *testing.T) (ours, bare string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS("../../../runtimes/base")); err != nil {
		t.Fatal(err)
	}
	build := func(name, from, run string) string {
		for file, text := range map[string]string{
			"Containerfile":  fmt.Sprintf("ARG BASE\nFROM %s\nRUN %s\n", from, run),
			"runtime.yaml":   fmt.Sprintf("{name: %s, version: '1', file: main.py, run: [python3, '{file}']}\n", name),
			"testdata/.keep": "",
		} {
			file = filepath.Join(dir, name, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		set, err := runtimes.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Build(t.Context(), runtimes.BuildOptions{Names: []string{name}, RootImages: []string{"true"}, Out: t.Output()}); err != nil {
			t.Fatal(err)
		}
		r, _ := set.Lookup(name)
		return r.Image()
	}
	ours = build("python-suite", pythonRuntime(t).Image(), "install-packages libpython3.13-testsuite")
	bare = build("python-bare", ours, "rm /usr/local/lib/python3.13/dist-packages/glovebox* /usr/lib/python3/dist-packages/glovebox*")
	return ours, bare
}
