package podman_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkIdleMemory is what each of ten sandboxes takes that wait for a program: plainly, from a snapshot, and
// preloaded by themselves. pss-MB is of all their processes, pages that several share in parts; watched-MB is the guests'
// memory, mapped or not, and gVisor's own; reserved-MB is what the worker's budget counts. Run it with -benchtime 1x.
func BenchmarkIdleMemory(b *testing.B) {
	const sandboxes = 10
	worker := fromSnapshots + "bench-memory"
	p := preloaded(b, worker, 1)
	awaitSnapshot(b, p)
	reserved := pythonRuntime(b).Preload.MemoryMB + podman.IdleMB
	for _, how := range []string{podman.Plain, podman.FromSnapshot, podman.ByImports} {
		b.Run(how, func(b *testing.B) {
			for b.Loop() {
				pss, watched := idleMemory(b, containersOf(b, worker))
				for range sandboxes {
					end, err := p.StartIdle(b.Context(), suite.image, how)
					if err != nil {
						b.Fatal(err)
					}
					defer end()
				}
				now, then := idleMemory(b, containersOf(b, worker))
				b.ReportMetric(float64(now-pss)/sandboxes/(1<<20), "pss-MB")
				b.ReportMetric(float64(then-watched)/sandboxes/(1<<20), "watched-MB")
				b.ReportMetric(float64(reserved), "reserved-MB")
			}
		})
	}
}

// idleMemory is what the processes of these containers hold, bytes, and what the worker's watch counts of them.
func idleMemory(tb testing.TB, containers []string) (pss, watched int64) {
	tb.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		tb.Fatal(err)
	}
	parents, ours := map[string]string{}, map[string]bool{}
	for _, dir := range all {
		stat, _ := os.ReadFile(dir + "/stat") // it may have ended
		if _, rest, ok := strings.Cut(string(stat), ") "); ok {
			parents[dir] = "/proc/" + strings.Fields(rest)[1]
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		for _, id := range containers {
			ours[dir] = ours[dir] || strings.Contains(string(command), id)
		}
	}
	for dir := range parents {
		of := dir
		for of != "" && !ours[of] {
			of = parents[of]
		}
		if of == "" {
			continue
		}
		rollup, _ := os.ReadFile(dir + "/smaps_rollup")
		for line := range strings.Lines(string(rollup)) {
			if kb, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
				if err != nil {
					tb.Fatal(err)
				}
				pss += n << 10
			}
		}
		if !ours[dir] {
			continue // a part of the sandbox's process
		}
		var pid int
		if _, err := fmt.Sscanf(dir, "/proc/%d", &pid); err != nil {
			tb.Fatal(err)
		}
		if held, done, err := podman.Held(pid); err == nil { // the sandbox's own process
			n, err := held()
			done()
			if err == nil {
				watched += n
			}
		}
	}
	return pss, watched
}
