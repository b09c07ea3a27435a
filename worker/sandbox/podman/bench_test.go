package podman_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkHello is one program in a fresh sandbox, in a warm one and in one where it was preloaded, beside the same
// image and code by podman run --rm.
func BenchmarkHello(b *testing.B) { benchmark(b, "print('hello')") }

// BenchmarkChart is the same with pandas and matplotlib.
func BenchmarkChart(b *testing.B) {
	benchmark(b, `import pandas as pd
import matplotlib.pyplot as plt
df = pd.DataFrame({"month": ["Jan", "Feb", "Mar", "Apr"], "sales": [10, 15, 13, 17]})
df.plot(x="month", y="sales", kind="bar", title="Sales")
plt.show()
`)
}

func benchmark(b *testing.B, source string) {
	b.Helper()
	sandboxes := open(b)
	p := program(source, asJobOf(pythonRuntime(b)))
	p.Image = suite.image
	run := func(b *testing.B, sandboxes *podman.Sandboxes, before func()) {
		b.Helper()
		var sum sandbox.Timing
		for b.Loop() {
			b.StopTimer()
			before()
			b.StartTimer()
			o, err := sandboxes.Run(b.Context(), p, &kept{})
			if err != nil {
				b.Fatal(err)
			}
			sum.Ready += o.Timing.Ready
			sum.Started += o.Timing.Started
			sum.Exited += o.Timing.Exited
			sum.Ended += o.Timing.Ended
		}
		n := float64(b.N) * 1e6
		b.ReportMetric(float64(sum.Ready)/n, "ms-ready")
		b.ReportMetric(float64(sum.Started)/n, "ms-started")
		b.ReportMetric(float64(sum.Exited)/n, "ms-exited")
		b.ReportMetric(float64(sum.Ended)/n, "ms-ended")
	}
	b.Run("cold", func(b *testing.B) { run(b, sandboxes, func() {}) })
	b.Run("warm", func(b *testing.B) {
		pooled := warm(b, "bench-warm", 2)
		n := 1 // until somebody has wanted one
		run(b, pooled, func() { awaitWarm(b, pooled, n); n = 2 })
	})
	b.Run("preloaded", func(b *testing.B) {
		pooled := preloaded(b, "bench-preloaded", 2)
		n := 1
		run(b, pooled, func() { awaitWarm(b, pooled, n); awaitPreloaded(b, pooled); n = 2 })
	})
	b.Run("podman-run", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // podman has to reach it
		if err != nil {
			b.Fatal(err)
		}
		defer os.RemoveAll(dir)
		main := filepath.Join(dir, "main.py")
		if err := os.WriteFile(main, []byte(source), 0o644); err != nil {
			b.Fatal(err)
		}
		args := []string{"run", "--rm", "--read-only", "--network", "none", "--tmpfs", "/work", "--tmpfs", "/tmp", "-w", "/work", "-v", main + ":/main.py:ro"}
		for name, value := range p.Env {
			args = append(args, "-e", name+"="+value)
		}
		args = append(args, suite.image, "python3", "/main.py")
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "podman", args...)
			cmd.Env = append(cmd.Environ(), podmanEnv()...)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
