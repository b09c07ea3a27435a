package podman_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// onDemandRuntime is one that is not of the core, and can be preloaded: make test-runtimes builds it.
func onDemandRuntime(tb testing.TB, name string) runtimes.Runtime {
	tb.Helper()
	if !slices.ContainsFunc(testedRuntimes(tb), func(r runtimes.Runtime) bool { return r.Name == name }) {
		tb.Skip(name + " is no runtime of the core: make test-runtimes tests it")
	}
	open(tb)
	return preloadingRuntime(tb, name)
}

// programIn is a program of the runtime.
func programIn(of runtimes.Runtime, source string, options ...func(*sandbox.Program)) sandbox.Program {
	var c runtimes.Case
	c.Spec.Source = source
	p := caseProgram(of, c)
	p.Env = maps.Clone(p.Env)
	for _, o := range options {
		o(&p)
	}
	return p
}

// waitingFor keeps two sandboxes that go on from a snapshot of the runtime.
func waitingFor(tb testing.TB, of runtimes.Runtime, worker string) *podman.Sandboxes {
	tb.Helper()
	return keepWarmOf(tb, fromSnapshots+worker, of.Image(), preloadOf(of))
}

// sameWherePreloaded: each of the programs with these names does the same cold and preloaded.
func sameWherePreloaded(t *testing.T, p *podman.Sandboxes, programs map[string]sandbox.Program, names []string) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			program := programs[name]
			sameColdAndPreloaded(t, p, program, func() { awaitPreloadedOf(t, p, program.Image) })
		})
	}
}

// refusesPrograms: programs that one of the runtime can't be get a process of their own, which prints what is wanted.
func refusesPrograms(t *testing.T, p *podman.Sandboxes, of runtimes.Runtime, source string, wanted map[string]refused) {
	t.Helper()
	for name, c := range wanted {
		awaitPreloadedOf(t, p, of.Image())
		sink := &kept{}
		o, err := p.Run(t.Context(), programIn(of, source, c.option), sink)
		if err != nil || !o.Warm || o.Preloaded || !strings.HasPrefix(sink.stdout.String(), c.want) || (o.Status == job.Succeeded) != (c.want != "") {
			t.Errorf("%s: got %+v, %v, %q%s, want it warm, not preloaded, and %q", name, o, err, sink.stdout.String(), sink.stderr.String(), c.want)
		}
	}
}

type refused struct {
	option func(*sandbox.Program)
	want   string // printed; nothing where it fails
}

// drawsAnew: what the source prints, an object of JSON, differs between two that go on from one snapshot.
func drawsAnew(t *testing.T, p *podman.Sandboxes, of runtimes.Runtime, source string) {
	t.Helper()
	get := func() (said map[string]string) {
		for range 100 {
			awaitPreloadedOf(t, p, of.Image())
			sink := &kept{}
			o, err := p.Run(t.Context(), programIn(of, source), sink)
			if err != nil || o.Status != job.Succeeded {
				t.Fatalf("got %+v, %v: %s", o, err, sink.stderr.String())
			}
			if !o.Preloaded || o.Snapshot == "" { // another took it
				continue
			}
			if err := json.Unmarshal(sink.stdout.Bytes(), &said); err != nil {
				t.Fatalf("%v: %s", err, sink.stdout.String())
			}
			t.Logf("held %d MiB", o.Usage.MemoryPeakBytes>>20)
			return said
		}
		t.Fatal("it was never preloaded")
		return nil
	}
	one, two := get(), get()
	for what, value := range one {
		if value == two[what] {
			t.Errorf("%s: %v in two sandboxes of one snapshot", what, value)
		}
	}
}
