package podman_test

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// BenchmarkGrade is one submission with 100 tests, beside 100 submissions with one test each, in sandboxes that
// were started before: "ratio" is how many times as long the latter take.
func BenchmarkGrade(b *testing.B) {
	open(b)
	const tests = 100
	for name, p := range map[string]sandbox.Program{
		"python": program("print(int(input()) * 2)", asJobOf(pythonRuntime(b))),
		"c":      inC(b, "#include <stdio.h>\nint main(void) { int n; if (scanf(\"%d\", &n) == 1) printf(\"%d\\n\", 2 * n); }"),
	} {
		b.Run(name, func(b *testing.B) {
			if p.Image == "" {
				p.Image = suite.image
			}
			pooled := keepWarmOf(b, "bench-grade-"+name, p.Image, nil)
			grade := func(n int) time.Duration {
				began := time.Now()
				g := &graded{inputs: make([]string, n)}
				for i := range g.inputs {
					g.inputs[i] = "21\n"
				}
				p.Tests = g
				o, err := pooled.Run(b.Context(), p, g)
				if err != nil || o.Status != job.Succeeded || len(g.got) != n {
					b.Fatalf("got %+v, %v, after %d tests", o, err, len(g.got))
				}
				for _, run := range g.got {
					if run.stdout != "42\n" {
						b.Fatalf("got %+v", run)
					}
				}
				return time.Since(began)
			}
			grade(1)
			var together, alone time.Duration
			for b.Loop() {
				together += grade(tests)
				for range tests {
					alone += grade(1)
				}
			}
			b.ReportMetric(together.Seconds()*1000/float64(b.N*tests), "ms/test")
			b.ReportMetric(alone.Seconds()*1000/float64(b.N*tests), "ms/submission")
			b.ReportMetric(float64(alone)/float64(together), "ratio")
		})
	}
}
