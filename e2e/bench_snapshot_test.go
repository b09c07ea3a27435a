package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rawLine is a line of what benchmarks print: its name, how often it ran, figures with their units.
var rawLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

// rawFigures has what benchmarks printed that ran before in the same `make bench`, by name and unit; GLOVEBOX_BENCH_RAW
// names the file.
func (b *bench) rawFigures() map[string]float64 {
	b.t.Helper()
	path := os.Getenv("GLOVEBOX_BENCH_RAW")
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	b.must(err)
	figures, err := readFigures(string(raw))
	b.must(err)
	return figures
}

func readFigures(raw string) (map[string]float64, error) {
	figures := map[string]float64{}
	for line := range strings.Lines(raw) {
		found := rawLine.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		words := strings.Fields(found[2])
		for n := 0; n+1 < len(words); n += 2 {
			f, err := strconv.ParseFloat(words[n], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
			figures[found[1]+" "+words[n+1]] = f
		}
	}
	return figures, nil
}

// TestBenchFigures: figures of benchmarks are found by name and unit, whatever else their output has.
func TestBenchFigures(t *testing.T) {
	t.Parallel()
	got, err := readFigures("goos: linux\ntime=2026-11-27T12:00:00Z level=INFO msg=\"snapshot made\"\n" +
		"BenchmarkIdleStart/python/plain-2         \t      30\t 133000000 ns/op\t       131.5 cpu-ms\n" +
		"BenchmarkBackToBack/chart/auto-bench \t 30\t 2.500 hellos/s\nBenchmarkSympy\nBenchmarkSympy/started\nPASS\n")
	want := map[string]float64{"IdleStart/python/plain ns/op": 133e6, "IdleStart/python/plain cpu-ms": 131.5, "BackToBack/chart/auto-bench hellos/s": 2.5}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := readFigures("BenchmarkSympy/started-2 8 a-lot ns/op\n"); err == nil {
		t.Error("a figure that is none is taken for one")
	}
}

// snapshots says what sandboxes that go on from a snapshot are to show, of benchmarks that ran before.
func (b *bench) snapshots() {
	b.t.Helper()
	figures := b.rawFigures()
	s := b.table.section("Snapshots", "figure", "of", "to", "÷")
	s.notef("Of BenchmarkIdleStart, BackToBack, Paced, Node, Sympy and IdleMemory, in a run just before, without queue and store. CPU time is the whole machine's, whatever else runs there.")
	// check compares the figure of one benchmark to that of another, or to 1 where that is "".
	check := func(what, wanted string, of, to string, ok func(float64) bool) {
		a, found := figures[of]
		z, also := 1.0, true
		if to != "" {
			z, also = figures[to]
		}
		if !found || !also || z == 0 {
			b.table.check(what, wanted, "", notMeasured)
			return
		}
		measured := number2(a / z)
		if to == "" {
			measured = number1(a)
		}
		b.table.check(what, wanted, measured, holds(ok(a/z)))
		s.row(what, number1(a), number1(z), measured)
	}
	most := func(bound float64) func(float64) bool { return func(f float64) bool { return f <= bound } }
	least := func(bound float64) func(float64) bool { return func(f float64) bool { return f >= bound } }
	for _, language := range []string{"python", "node"} {
		of := "IdleStart/" + language + "/"
		check("CPU time of a sandbox that waits preloaded, from a snapshot ÷ by imports, "+language, "≤ 0.15", of+"snapshot cpu-ms", of+"imports cpu-ms", most(0.15))
		check("the same ÷ a plain one, "+language, "≤ 1.3", of+"snapshot cpu-ms", of+"plain cpu-ms", most(1.3))
	}
	check("charts back to back, four callers, with snapshots ÷ without", "≥ 4", "BackToBack/chart/auto-bench hellos/s", "BackToBack/chart/bench hellos/s", least(4))
	check("hellos back to back, four callers, with snapshots ÷ without", "≥ 1", "BackToBack/hello/auto-bench hellos/s", "BackToBack/hello/bench hellos/s", least(1))
	for _, what := range []string{"hello", "chart"} {
		check("one "+what+" a second ÷ one each four seconds, p50", "0.9 to 1.1", "Paced/"+what+"/1s/auto-bench p50-ms", "Paced/"+what+"/4s/auto-bench p50-ms", func(f float64) bool { return f >= 0.9 && f <= 1.1 })
	}
	check("`require('mathjs')` in a sandbox that waits, p50 ms", "≤ 400", "Node/mathjs/snapshot p50-ms", "", most(400))
	check("`import sympy` with a worker's snapshots, p50 ms", "≤ 400", "Sympy/snapshot p50-ms", "", most(400))
	check("hello (Node) from a snapshot ÷ Node started, p50", "≤ 0.6", "Node/hello/snapshot p50-ms", "Node/hello/started p50-ms", most(0.6))
	for _, how := range []string{"snapshot", "imports"} {
		check("memory (Pss) of each of ten sandboxes that wait preloaded ÷ what the budget reserves, "+how, "0.8 to 1", "IdleMemory/"+how+" pss-MB", "IdleMemory/"+how+" reserved-MB", func(f float64) bool { return f >= 0.8 && f <= 1 })
	}
	if len(figures) == 0 {
		s.row("not measured", "", "", "")
	}
}
