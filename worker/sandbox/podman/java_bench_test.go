package podman_test

import (
	"context"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkJava is a hello in Java from its claim to its end, in turns: in sandboxes in which a compiler waited, and in ones in which it is
// started. "ratio" is how many times as long the latter take, "compile-ratio" how many times their compile steps.
func BenchmarkJava(b *testing.B) {
	open(b)
	image := javaRuntime(b).Image()
	waiting, plain := preloadedJava(b, fromSnapshots+"bench-java"), keepWarmOf(b, "bench-java-plain", image, nil)
	hello := java(b, "Main.java", helloJava)
	run := func(p *podman.Sandboxes, waited bool) (took, compiled float64) {
		began := time.Now()
		o, err := p.Run(context.WithoutCancel(b.Context()), hello, &kept{})
		if err != nil || o.Compile == nil || o.Compile.ExitCode != 0 || o.Preloaded != waited {
			b.Fatal(o, err)
		}
		return time.Since(began).Seconds() * 1000, float64(o.Compile.WallMS)
	}
	var took, compiled [2]float64
	for b.Loop() {
		awaitPreloadedOf(b, waiting, image)
		w, wc := run(waiting, true)
		gbtest.Eventually(b, "a sandbox waits", func() bool { return plain.WarmOf(image) > 0 })
		s, sc := run(plain, false)
		took[0], took[1], compiled[0], compiled[1] = took[0]+w, took[1]+s, compiled[0]+wc, compiled[1]+sc
	}
	b.ReportMetric(took[0]/float64(b.N), "ms/job")
	b.ReportMetric(took[1]/float64(b.N), "ms/started-job")
	b.ReportMetric(took[1]/took[0], "ratio")
	b.ReportMetric(compiled[1]/compiled[0], "compile-ratio")
}
