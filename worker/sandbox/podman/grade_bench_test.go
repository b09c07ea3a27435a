package podman_test

import (
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// BenchmarkForkedTests is one submission with 20 tests in Python, whose processes one interpreter makes, beside one each of which starts
// its own: "ratio" is how many times as long the latter takes.
func BenchmarkForkedTests(b *testing.B) {
	for _, module := range []string{"sys", "numpy", "pandas", "matplotlib.pyplot"} {
		b.Run(module, func(b *testing.B) {
			pooled := forking(b, "bench-forked-"+module)
			p := program("import "+module+"\nprint(int(input()) * 2)", asJobOf(pythonRuntime(b)))
			grade := func(forked bool) time.Duration {
				began := time.Now()
				_, got := gradeIn(b, pooled, forked, p, nil, slices.Repeat([]string{"21\n"}, 20)...)
				for _, run := range got {
					if run.stdout != "42\n" {
						b.Fatalf("got %+v", run)
					}
				}
				return time.Since(began)
			}
			grade(true)
			var forked, started time.Duration
			for b.Loop() {
				forked += grade(true)
				started += grade(false)
			}
			b.ReportMetric(forked.Seconds()*1000/float64(b.N*20), "ms/test")
			b.ReportMetric(started.Seconds()*1000/float64(b.N*20), "ms/started-test")
			b.ReportMetric(float64(started)/float64(forked), "ratio")
		})
	}
}

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
