package podman_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// BenchmarkR is a program in R from its claim to its end, in turns: in sandboxes in which R waited, and in ones in which Rscript is
// started. "ratio" is how many times as long the latter take.
func BenchmarkR(b *testing.B) {
	benchmarkWaiting(b, "r", []string{"Rscript", "--no-save", "--no-restore", "--no-init-file", "--no-environ", "main.r"}, map[string]string{
		"hello":   "cat('hello\\n')",
		"plot":    "plot(cars, main = 'Größe')",
		"ggplot2": "library(ggplot2); ggplot(cars, aes(speed, dist)) + geom_point()",
		"dplyr":   "library(dplyr); cars %>% group_by(speed) %>% summarise(n = n()) %>% print()",
	})
}

// BenchmarkOctave is the same for Octave.
func BenchmarkOctave(b *testing.B) {
	benchmarkWaiting(b, "octave", nil, map[string]string{"hello": "printf ('hello\\n');", "plot": "plot (1:3); title ('x');"})
}

// BenchmarkTypeScript is the same for TypeScript.
func BenchmarkTypeScript(b *testing.B) {
	benchmarkWaiting(b, "typescript", nil, map[string]string{
		"hello":  "const who: string = 'world'; console.log(`hello ${who}`)",
		"enum":   "enum Colour { Red, Green }\nclass Point { constructor(readonly x: number) {} }\nconsole.log(Colour[1], new Point(3).x)",
		"module": "import _ from 'lodash';\nimport type { Stats } from 'node:fs';\nconst of = (s: Stats | undefined): string => String(s);\nconsole.log(_.chunk([1, 2, 3], 2), of(undefined))",
	})
}

// BenchmarkTypeScriptBackToBack is how many programs a second four callers run, one after the other each, without and with snapshots.
func BenchmarkTypeScriptBackToBack(b *testing.B) {
	benchmarkBackToBack(b, "typescript", "enum E { A = 1 }\nconsole.log(E.A)")
}

// BenchmarkNodeWaiting and BenchmarkNodeBackToBack are the same for JavaScript.
func BenchmarkNodeWaiting(b *testing.B) {
	benchmarkWaiting(b, "node", nil, map[string]string{
		"hello":  "console.log('hello')",
		"lodash": "console.log(require('lodash').sum([1, 2]))",
		"lines":  "const rl = require('readline').createInterface({ input: process.stdin });\nrl.on('line', console.log).on('close', () => console.log('end'))",
		"module": "import _ from 'lodash';\nconsole.log(_.sum([1, 2]))",
	})
}

func BenchmarkNodeBackToBack(b *testing.B) { benchmarkBackToBack(b, "node", "console.log('hello')") }

func benchmarkBackToBack(b *testing.B, name, source string) {
	b.Helper()
	open(b)
	of := preloadingRuntime(b, name)
	for _, worker := range []string{"bench-", withSnapshots + "bench-"} {
		b.Run(worker[:len(worker)-1], func(b *testing.B) {
			p := keepWarmOf(b, worker+name, of.Image(), preloadOf(of))
			gbtest.Eventually(b, "a sandbox waits, and a snapshot where there is to be one", func() bool {
				_, made := p.SnapshotOf(of.Image())
				return p.PreloadedOf(of.Image()) > 0 && (made || !strings.HasPrefix(worker, withSnapshots))
			})
			b.ResetTimer()
			inParallel(b, 4, func() error {
				o, err := p.Run(context.WithoutCancel(b.Context()), programIn(of, source), &kept{})
				if err == nil && o.Status != job.Succeeded {
					err = fmt.Errorf("it %s", o.Status)
				}
				return err
			})
			rate(b)
		})
	}
}

// benchmarkWaiting compares programs of a runtime where it waited with ones that are started by a command, the runtime's own if there is none.
func benchmarkWaiting(b *testing.B, name string, command []string, sources map[string]string) {
	b.Helper()
	of := onDemandRuntime(b, name)
	waiting, plain := waitingFor(b, of, "bench-"+name), keepWarmOf(b, "bench-plain-"+name, of.Image(), nil)
	for name, source := range sources {
		b.Run(name, func(b *testing.B) {
			var took [2]time.Duration
			for b.Loop() {
				for i, p := range []*podman.Sandboxes{waiting, plain} {
					gbtest.Eventually(b, "as many wait as are wanted", func() bool { // one that is being started would take the processor
						return waiting.PreloadedOf(of.Image()) >= max(waiting.WantedOf(of.Image()), 1) && plain.WarmOf(of.Image()) >= max(plain.WantedOf(of.Image()), 1)
					})
					program := programIn(of, source)
					if p == plain && command != nil {
						program.Command = command
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
