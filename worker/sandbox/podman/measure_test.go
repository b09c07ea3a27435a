package podman_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestMeasureRuntimes writes the table of docs/benchmarks/runtimes.md to the file that
// GLOVEBOX_MEASURE_RUNTIMES names: what the runtimes that are built take, or of these the ones that
// GLOVEBOX_TEST_RUNTIMES names.
func TestMeasureRuntimes(t *testing.T) {
	file := os.Getenv("GLOVEBOX_MEASURE_RUNTIMES")
	if file == "" {
		t.Skip("GLOVEBOX_MEASURE_RUNTIMES names no file to write: make measure-runtimes does")
	}
	open(t)
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	list := set.List()
	if os.Getenv("GLOVEBOX_TEST_RUNTIMES") != "" {
		list = testedRuntimes(t)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("../../../docs/benchmarks/runtimes.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // those of runtimes that are not built here stay as they are
	for line := range strings.Lines(string(before)) {
		if cells := strings.Split(line, "|"); len(cells) > 6 && strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[1], " `")] = line
		}
	}
	where := fmt.Sprintf("%s, %d × %s, load %s", time.Now().Format(time.DateOnly), runtime.NumCPU(), processor(t), strings.Fields(string(load))[0])
	for _, r := range list {
		if _, err := podmanCLI("image", "exists", r.Image()); err != nil {
			continue
		}
		rows[r.Name] = measure(t, r, where)
		t.Log(rows[r.Name])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# What each language takes

Written by `+"`make measure-runtimes`"+`, which measures the runtimes that are built on the machine and leaves the others as they
were. The median of %d runs of each runtime's hello, its compile step included, from the claim of a sandbox to its end: cold is
a sandbox that is started for it, warm one that waited, from a snapshot where the runtime has a preload. The root image takes the size of the image once more. Where the load average was
above the number of processors, times are upper bounds. [docs/runtimes.md](../runtimes.md) has them, too.

| runtime | version | image, MB | cold, ms | warm, ms | measured |
|---|---|---|---|---|---|
`, measuredRuns)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const measuredRuns = 3

// processor is what this machine's is called.
func processor(t *testing.T) string {
	t.Helper()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.ReplaceAll(strings.TrimSpace(value), "|", " ")
		}
	}
	return runtime.GOARCH
}

func measure(t *testing.T, r runtimes.Runtime, where string) string {
	t.Helper()
	printed, err := podmanCLI("image", "inspect", "--format", "{{.Size}}", r.Image())
	if err != nil {
		t.Fatal(err)
	}
	size, err := strconv.ParseInt(strings.TrimSpace(printed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	cases := casesOf(t, r)
	p := caseProgram(r, cases[slices.IndexFunc(cases, func(c runtimes.Case) bool { return c.Name == "hello" })])
	return fmt.Sprintf("| `%s` | %s | %d | %d | %d | %s |\n", r.Name, r.FindVersion(printVersion(t, r)), size/1e6,
		medianOf(t, p, suite.podman, func() {}), medianWarm(t, r, p), where)
}

func medianWarm(t *testing.T, r runtimes.Runtime, p sandbox.Program) int64 {
	t.Helper()
	warm, err := podman.Open(t.Context(), podman.Config{
		Socket: suite.socket, Agent: agentPath(), Instance: instance + "-measure", Worker: "measure", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer warm.Close()
	if _, err := warm.SelfTest(t.Context(), suite.image); err != nil {
		t.Fatal(err)
	}
	w := podman.Warm{Images: map[string]job.Limits{r.Image(): p.Limits}, MaxMemoryMB: 2048, Most: 1, MemoryMB: podman.IdleMB}
	waiting := warm.WarmOf
	if r.Preload != nil {
		w.Preloads, w.Snapshots, w.OnlySnapshots = map[string]podman.Preload{r.Image(): *preloadOf(r)}, true, true
		w.MemoryMB += r.Preload.MemoryMB
		waiting = warm.PreloadedOf
	}
	warm.KeepWarm(t.Context(), w)
	return medianOf(t, p, warm, func() {
		gbtest.Eventually(t, "a sandbox waits", func() bool { return waiting(r.Image()) == 1 })
	})
}

// medianOf is how long a program takes, in milliseconds.
func medianOf(t *testing.T, p sandbox.Program, sandboxes *podman.Sandboxes, before func()) int64 {
	t.Helper()
	var took []time.Duration
	for range measuredRuns {
		before()
		k, start := &kept{}, time.Now()
		o, err := sandboxes.Run(t.Context(), p, k)
		if err != nil || o.Status != job.Succeeded {
			t.Fatalf("%s: %+v, %v: %s", p.Image, o, err, k.stderr.String())
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2].Milliseconds()
}
