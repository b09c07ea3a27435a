package podman_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkIdleStart is what a sandbox costs until it waits for a program, and its end: plainly, with
// a program preloaded by its imports, and from a snapshot in which that is done. cpu-ms is the whole
// machine's, on which nothing else should run.
func BenchmarkIdleStart(b *testing.B) {
	b.Run("python", func(b *testing.B) {
		p := preloaded(b, fromSnapshots+"bench-idle", 1)
		awaitSnapshot(b, p)
		benchmarkIdleStart(b, p, suite.image)
	})
	b.Run("node", func(b *testing.B) {
		p, image := preloadedNode(b, fromSnapshots+"bench-idle-node"), nodeRuntime(b).Image()
		awaitPreloadedOf(b, p, image)
		benchmarkIdleStart(b, p, image)
	})
}

func benchmarkIdleStart(b *testing.B, p *podman.Sandboxes, image string) {
	b.Helper()
	for _, how := range []string{podman.Plain, podman.FromSnapshot, podman.ByImports} {
		b.Run(how, func(b *testing.B) {
			before := machineCPU(b)
			for b.Loop() {
				end, err := p.StartIdle(b.Context(), image, how)
				if err != nil {
					b.Fatal(err)
				}
				end()
			}
			b.ReportMetric(float64((machineCPU(b)-before).Milliseconds())/float64(b.N), "cpu-ms")
		})
	}
}

// BenchmarkNode is how long a program in JavaScript takes from its claim to its end, in a sandbox that waits, where Node
// has to be started, where it waits, too, and where it went on from a snapshot; and how long the program itself took.
func BenchmarkNode(b *testing.B) {
	open(b)
	for what, source := range map[string]string{"hello": "console.log('hello')", "lodash": "console.log(require('lodash').sum([1, 2]))", "mathjs": "console.log(require('mathjs').add(1, 2))"} {
		for _, how := range []string{"started", "imports", "snapshot"} {
			b.Run(what+"/"+how, func(b *testing.B) {
				p := keepWarmOf(b, "bench-node-"+what, nodeRuntime(b).Image(), nil)
				wait := func() {
					gbtest.Eventually(b, "a sandbox waits", func() bool { return p.WarmOf(nodeRuntime(b).Image()) > 0 })
				}
				if how != "started" {
					p = preloadedNode(b, map[string]string{"snapshot": fromSnapshots}[how]+"bench-node-preloaded-"+what)
					wait = func() { awaitPreloadedOf(b, p, nodeRuntime(b).Image()) }
				}
				var took, exited []time.Duration
				for b.Loop() {
					wait()
					began := time.Now()
					o, err := p.Run(context.WithoutCancel(b.Context()), node(b, source), &kept{})
					if err != nil || o.Preloaded != (how != "started") {
						b.Fatal(o, err)
					}
					took, exited = append(took, time.Since(began)), append(exited, o.Timing.Exited-o.Timing.Started)
				}
				for unit, times := range map[string][]time.Duration{"p50-ms": took, "p50-program-ms": exited} {
					slices.Sort(times)
					b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, unit)
				}
			})
		}
	}
}

// BenchmarkSympy is how long `import sympy` takes from its claim to its end, in a sandbox that waits: where Python has to
// be started, where it waits, without sympy, and with a worker's snapshots, which have it.
func BenchmarkSympy(b *testing.B) {
	open(b)
	const source = "import sympy; print(sympy.sqrt(8))"
	for _, how := range []string{"started", "imports", "snapshot"} {
		b.Run(how, func(b *testing.B) {
			var p *podman.Sandboxes
			switch how {
			case "started":
				p = warm(b, "bench-sympy-started", 1)
			case "imports":
				p = preloaded(b, "bench-sympy", 1)
			case "snapshot":
				p = preloaded(b, withSnapshots+"bench-sympy", 1)
				gbtest.Eventually(b, "there is a snapshot", func() bool { _, ok := p.SnapshotOf(suite.image); return ok })
			}
			var took []time.Duration
			for b.Loop() {
				awaitWarm(b, p, 1)
				if how != "started" {
					awaitPreloaded(b, p)
				}
				began := time.Now()
				o, err := p.Run(context.WithoutCancel(b.Context()), program(source, asJobOf(pythonRuntime(b))), &kept{})
				if err != nil || o.ExitCode != 0 || o.Preloaded != (how != "started") {
					b.Fatal(o, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// pacedPrograms are enough for a median: 30 of them would take a quarter of an hour.
const pacedPrograms = 10

// chart draws one.
const chart = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()"

// BenchmarkBackToBack is how many programs a second four callers run, one after the other each, without
// and with snapshots.
func BenchmarkBackToBack(b *testing.B) {
	for what, source := range map[string]string{"hello": hello, "chart": chart} {
		for _, worker := range []string{"bench-", withSnapshots + "bench-", fromSnapshots + "bench-"} {
			b.Run(what+"/"+worker[:len(worker)-1], func(b *testing.B) {
				p := preloaded(b, worker+what, 2)
				awaitPreloaded(b, p)
				b.ResetTimer()
				inParallel(b, 4, func() error {
					_, err := p.Run(context.WithoutCancel(b.Context()), program(source, asJobOf(pythonRuntime(b))), &kept{})
					return err
				})
				rate(b)
			})
		}
	}
}

// BenchmarkPaced is how long a program takes from its claim to its end where one comes every second or
// every four: without snapshots, with them as a worker has them, and with nothing else. p50-ms and p90-ms.
func BenchmarkPaced(b *testing.B) {
	for _, what := range []string{"hello", "chart"} {
		source := map[string]string{"hello": hello, "chart": chart}[what]
		for _, every := range []time.Duration{time.Second, 4 * time.Second} {
			for _, worker := range []string{"bench-", withSnapshots + "bench-", fromSnapshots + "bench-"} {
				b.Run(fmt.Sprintf("%s/%v/%s", what, every, worker[:len(worker)-1]), func(b *testing.B) {
					p := preloaded(b, worker+what, 2)
					awaitPreloaded(b, p)
					var took []time.Duration
					next := time.NewTicker(every)
					defer next.Stop()
					for b.Loop() {
						if len(took) == pacedPrograms {
							continue
						}
						<-next.C
						began := time.Now()
						if _, err := p.Run(context.WithoutCancel(b.Context()), program(source, asJobOf(pythonRuntime(b))), &kept{}); err != nil {
							b.Fatal(err)
						}
						took = append(took, time.Since(began))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
					b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "p90-ms")
				})
			}
		}
	}
}

// machineCPU is the time that all processors were busy since the machine's start.
func machineCPU(tb testing.TB) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		tb.Fatal(err)
	}
	var user, nice, system, idle, wait, hard, soft int64 // hundredths of a second, proc(5)
	if _, err := fmt.Sscan(strings.TrimPrefix(string(stat), "cpu "), &user, &nice, &system, &idle, &wait, &hard, &soft); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(user+nice+system+hard+soft) * 10 * time.Millisecond
}
