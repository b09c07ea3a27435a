package podman_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkIdleStart is what a sandbox costs until it waits for a program, and its end: plainly, with
// a program preloaded by its imports, and from a snapshot in which that is done. cpu-ms is the whole
// machine's, on which nothing else should run.
func BenchmarkIdleStart(b *testing.B) {
	p := preloaded(b, fromSnapshots+"bench-idle", 1)
	awaitSnapshot(b, p)
	for _, how := range []string{podman.Plain, podman.FromSnapshot, podman.ByImports} {
		b.Run(how, func(b *testing.B) {
			before := machineCPU(b)
			for b.Loop() {
				end, err := p.StartIdle(b.Context(), suite.image, how)
				if err != nil {
					b.Fatal(err)
				}
				end()
			}
			b.ReportMetric(float64((machineCPU(b)-before).Milliseconds())/float64(b.N), "cpu-ms")
		})
	}
}

// BenchmarkBackToBack is how many programs a second four callers run, one after the other each, without
// and with snapshots.
func BenchmarkBackToBack(b *testing.B) {
	for what, source := range map[string]string{"hello": hello, "chart": "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()"} {
		for _, worker := range []string{"bench-", fromSnapshots + "bench-"} {
			b.Run(what+"/"+worker[:len(worker)-1], func(b *testing.B) {
				p := preloaded(b, worker+what, 2)
				if strings.HasPrefix(worker, fromSnapshots) {
					awaitSnapshot(b, p)
				} else {
					awaitPreloaded(b, p)
				}
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
