package podman_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// arrivalShares is how many of the programs are of each runtime. All run a shell's hello, which every image can.
var arrivalShares = []struct {
	runtime string
	share   float64
}{{"bash", 0.6}, {"python", 0.3}, {"php", 0.1}}

// fixedSize is how many sandboxes of each runtime a pool of a fixed size has.
const fixedSize = 4

// BenchmarkArrivals is how many programs find a sandbox that waits, where they come at random at 80 % of the rate at
// which the pool refills, of three runtimes: with the same number for each, and with those that the pool
// finds best with the same memory. Run it with -benchtime 400x.
func BenchmarkArrivals(b *testing.B) {
	for _, how := range []string{"fixed", "follows"} {
		b.Run(how, func(b *testing.B) {
			p, images := pooled(b, "bench-arrivals-"+how, 3*fixedSize)
			if how == "fixed" {
				askEach(p, images, fixedSize)
				awaitEach(b, p, images, fixedSize)
			}
			random := rand.New(rand.NewPCG(1, 58))
			a := &arriving{b: b, p: p}
			const warmUp = 100
			for range warmUp {
				a.next(random, images)
			}
			a.wait()
			a.hits.Store(0)
			a.took, a.most = nil, 0
			b.ResetTimer()
			for b.Loop() {
				a.next(random, images)
			}
			a.wait()
			slices.Sort(a.took)
			b.ReportMetric(100*float64(a.hits.Load())/float64(len(a.took)), "hit-%")
			b.ReportMetric(float64(a.most*podman.IdleMB), "most-MiB")
			b.ReportMetric(float64(a.took[len(a.took)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(a.took[len(a.took)*95/100].Milliseconds()), "p95-ms")
			b.ReportMetric(float64(p.RefillTime().Milliseconds()), "refill-ms")
		})
	}
}

// BenchmarkBurst is how long it takes until the last of 60 programs that come at once has ended, where a worker runs
// four at once: with a pool of a fixed size; with one that had such a burst before; and with one that an
// operator has told. Run it with -benchtime 1x.
func BenchmarkBurst(b *testing.B) {
	const burst = 60
	for _, how := range []string{"fixed", "again", "asked"} {
		b.Run(how, func(b *testing.B) {
			room := 3 * fixedSize
			if how != "fixed" {
				room = burst + 2 // one of each other runtime
			}
			p, images := pooled(b, "bench-burst-"+how, room)
			for b.Loop() {
				b.StopTimer()
				switch how {
				case "fixed":
					askEach(p, images, fixedSize)
					awaitEach(b, p, images, fixedSize)
				case "again":
					a := &arriving{b: b, p: p}
					a.burst(images[0], burst)
					gbtest.Eventually(b, "as many wait as are wanted", func() bool { return p.WarmOf(images[0]) >= p.WantedOf(images[0]) })
				case "asked":
					askEach(p, images[:1], burst)
					awaitEach(b, p, images[:1], burst)
				}
				a := &arriving{b: b, p: p}
				b.ReportMetric(float64(p.WarmOf(images[0])), "waited")
				b.StartTimer()
				a.burst(images[0], burst)
				b.ReportMetric(100*float64(a.hits.Load())/burst, "hit-%")
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "last-s")
		})
	}
}

// pooled keeps sandboxes of the three runtimes, with memory for so many.
func pooled(b *testing.B, worker string, room int) (p *podman.Sandboxes, images []string) {
	b.Helper()
	open(b)
	set, err := runtimes.Embedded()
	if err != nil {
		b.Fatal(err)
	}
	warm := podman.Warm{Images: map[string]job.Limits{}, MaxMemoryMB: 1024, Most: 2, MemoryMB: int64(room) * podman.IdleMB}
	for _, a := range arrivalShares {
		r, ok := set.Lookup(a.runtime)
		if !ok {
			b.Fatalf("there is no runtime %s", a.runtime)
		}
		images = append(images, r.Image())
		warm.Images[r.Image()] = job.Limits{}.Filled(job.Limits{})
	}
	p, err = podman.Open(b.Context(), podman.Config{
		Socket: suite.socket, Agent: agentPath(), Instance: instance + "-" + worker, Worker: worker, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	if _, err := p.SelfTest(b.Context(), suite.image); err != nil {
		b.Fatal(err)
	}
	p.KeepWarm(b.Context(), warm)
	awaitEach(b, p, images, 1)
	return p, images
}

func askEach(p *podman.Sandboxes, images []string, count int) {
	var asked []sandbox.Ask
	for _, image := range images {
		asked = append(asked, sandbox.Ask{Image: image, Count: count, Since: time.Now(), Until: time.Now().Add(time.Hour)})
	}
	p.Ask(asked)
}

func awaitEach(tb testing.TB, p *podman.Sandboxes, images []string, count int) {
	tb.Helper()
	for _, image := range images {
		gbtest.Eventually(tb, "sandboxes wait", func() bool { return p.WarmOf(image) >= count })
	}
}

// arriving runs programs as they come.
type arriving struct {
	b    *testing.B
	p    *podman.Sandboxes
	hits atomic.Int64
	all  sync.WaitGroup

	mu   sync.Mutex
	took []time.Duration
	most int // sandboxes that waited at once
}

func (a *arriving) wait() { a.all.Wait() }

// next waits until a program comes, and runs it.
func (a *arriving) next(random *rand.Rand, images []string) {
	time.Sleep(time.Duration(random.ExpFloat64() / 0.8 * float64(a.p.RefillTime())))
	x, i := random.Float64(), 0
	for ; i < len(images)-1 && x >= arrivalShares[i].share; i++ {
		x -= arrivalShares[i].share
	}
	waits := 0
	for _, image := range images {
		waits += a.p.WarmOf(image)
	}
	a.mu.Lock()
	a.most = max(a.most, waits)
	a.mu.Unlock()
	a.all.Go(func() { a.run(images[i]) })
}

// burst runs programs that come at once, four at a time.
func (a *arriving) burst(image string, n int) {
	slots := make(chan struct{}, 4)
	for range n {
		slots <- struct{}{}
		a.all.Go(func() {
			a.run(image)
			<-slots
		})
	}
	a.wait()
}

func (a *arriving) run(image string) {
	program := bash("echo hello")
	program.Image = image
	began := time.Now()
	o, err := a.p.Run(context.WithoutCancel(a.b.Context()), program, &kept{})
	if err != nil || o.Status != job.Succeeded {
		a.b.Error(o, err)
		return
	}
	if o.Warm {
		a.hits.Add(1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, time.Since(began))
}
