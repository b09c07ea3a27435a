package podman_test

import (
	"context"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkR is a program in R from its claim to its end, in turns: in sandboxes in which R waited, and in ones in which Rscript is
// started. "ratio" is how many times as long the latter take.
func BenchmarkR(b *testing.B) {
	image := rRuntime(b).Image()
	waiting, plain := preloadedR(b, fromSnapshots+"bench-r"), keepWarmOf(b, "bench-r-plain", image, nil)
	for name, source := range map[string]string{
		"hello":   "cat('hello\\n')",
		"plot":    "plot(cars, main = 'Größe')",
		"ggplot2": "library(ggplot2); ggplot(cars, aes(speed, dist)) + geom_point()",
		"dplyr":   "library(dplyr); cars %>% group_by(speed) %>% summarise(n = n()) %>% print()",
	} {
		b.Run(name, func(b *testing.B) {
			started := r(b, source)
			started.Command = []string{"Rscript", "--no-save", "--no-restore", "--no-init-file", "--no-environ", "main.r"}
			var took [2]time.Duration
			for b.Loop() {
				awaitPreloadedOf(b, waiting, image)
				gbtest.Eventually(b, "a sandbox waits", func() bool { return plain.WarmOf(image) > 0 })
				for i, p := range []*podman.Sandboxes{waiting, plain} {
					program := started
					if p == waiting {
						program = r(b, source)
					}
					began := time.Now()
					sink := &kept{}
					o, err := p.Run(context.WithoutCancel(b.Context()), program, sink)
					if err != nil || o.Status != job.Succeeded || o.Preloaded != (p == waiting) {
						b.Fatal(o, err, sink.stderr.String())
					}
					took[i] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[0].Milliseconds())/float64(b.N), "ms/job")
			b.ReportMetric(float64(took[1].Milliseconds())/float64(b.N), "ms/started-job")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}
