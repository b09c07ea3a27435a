package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// BenchmarkHello is one program in a fresh sandbox and in a warm one, beside the same image and code by
// podman run --rm.
func BenchmarkHello(b *testing.B) {
	podman := open(b)
	pooled := warm(b, "bench", 2)
	run := func(b *testing.B, podman *sandbox.Podman, before func()) {
		b.Helper()
		p := program("print('hello')")
		p.Image = suite.image
		var sum sandbox.Timing
		for b.Loop() {
			b.StopTimer()
			before()
			b.StartTimer()
			o, err := podman.Run(b.Context(), p, &kept{})
			if err != nil {
				b.Fatal(err)
			}
			sum.Created += o.Timing.Created
			sum.Attached += o.Timing.Attached
			sum.Running += o.Timing.Running
			sum.Ready += o.Timing.Ready
			sum.Started += o.Timing.Started
			sum.Exited += o.Timing.Exited
		}
		n := float64(b.N) * 1e6
		b.ReportMetric(float64(sum.Created)/n, "ms-created")
		b.ReportMetric(float64(sum.Attached)/n, "ms-attached")
		b.ReportMetric(float64(sum.Running)/n, "ms-running")
		b.ReportMetric(float64(sum.Ready)/n, "ms-ready")
		b.ReportMetric(float64(sum.Started)/n, "ms-started")
		b.ReportMetric(float64(sum.Exited)/n, "ms-exited")
	}
	b.Run("cold", func(b *testing.B) { run(b, podman, func() {}) })
	b.Run("warm", func(b *testing.B) { run(b, pooled, func() { awaitWarm(b, pooled, 1) }) })
	b.Run("podman-run", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // podman has to reach it
		if err != nil {
			b.Fatal(err)
		}
		defer os.RemoveAll(dir)
		main := filepath.Join(dir, "main.py")
		if err := os.WriteFile(main, []byte("print('hello')"), 0o644); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "podman", "run", "--rm", "--read-only", "--network", "none", "-v", main+":/main.py:ro", suite.image, "python3", "/main.py")
			cmd.Env = append(cmd.Environ(), podmanEnv()...)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
