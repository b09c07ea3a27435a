package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// loads measures jobs that come, whether or not those before them are done, at a share of
// the rate at which the pool starts sandboxes. It returns what memory they took.
func (b *bench) loads(idle map[string]times) {
	b.t.Helper()
	reference := idle[podmanWay].percentile(50)
	rate := b.refillRate()
	arrival := 0.8 * rate
	lasts := max(b.scaled(30*time.Second), 2*time.Second)
	s := b.table.section("Latency: hello (Python) at 80 % of the refill rate",
		"arrivals", "n", "hit rate", "of these preloaded", "p50 ÷", "p95 ÷", "p99 ÷", "p50 ms", "p95 ms", "p99 ms")
	s.notef("The pool starts %.1f sandboxes a second beside the jobs that take them; jobs come at %.1f a second for %.0f s, each timed from when it was due. "+
		"÷: divided by the p50 of `podman run --rm` on an idle machine. Hit rate: jobs that got a sandbox that waited; preloaded: those of them whose Python waited in it.", rate, arrival, lasts.Seconds())
	even := func() time.Duration { return time.Duration(float64(time.Second) / arrival) }
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run, and nothing secret
	poisson := func() time.Duration { return time.Duration(random.ExpFloat64() * float64(even())) }
	for _, a := range []struct {
		name string
		gap  func() time.Duration
	}{{"even", even}, {"at random (Poisson)", poisson}} {
		b.says("hello at 80 % of the refill rate, arrivals "+a.name, lasts)
		took, hits, preloaded := b.arrivals(a.gap, lasts)
		s.row(append([]string{a.name, fmt.Sprint(len(took)), percent(hits), percent(preloaded)}, took.cells(reference)...)...)
		if a.name != "even" {
			p95 := ratio(took.percentile(95), reference)
			b.table.check("hit rate at 80 % of the refill rate, at random", "≥ 90 %", percent(hits), holds(hits >= 0.9))
			b.table.check("of these hits preloaded", "100 %", percent(preloaded), holds(preloaded == 1))
			b.table.check("warm hello at 80 % of the refill rate, at random, p95 ÷ `podman run --rm`, its p50", "≤ 0.6", number2(p95), holds(p95 <= 0.6))
		} else {
			p50 := ratio(took.percentile(50), reference)
			b.table.check("warm hello at 80 % of the refill rate, p50 ÷ `podman run --rm`", "≤ 0.5", number2(p50), holds(p50 <= 0.5))
			b.table.check("hit rate at 80 % of the refill rate", "≥ 90 %", percent(hits), holds(hits >= 0.9))
		}
	}
}

// podmanHellos are what `podman run --rm` takes for hello, on an idle machine.
func (b *bench) podmanHellos() (took times) {
	b.t.Helper()
	podman := hello.elsewhere(b.t, 1)[0]
	for range b.times(16) {
		b.settle()
		d, err := podman.took()
		b.must(err)
		took = append(took, d)
	}
	return took
}

// refillRate is how many sandboxes a second the pool starts. Each time all that wait are
// taken at once; what counts is the time in which the pool has work.
func (b *bench) refillRate() float64 {
	b.t.Helper()
	const most = 15 * time.Second
	b.says("refill rate", most)
	var sandboxes float64
	var busy time.Duration
	for deadline := time.Now().Add(b.scaled(most)); busy == 0 || time.Now().Before(deadline); {
		b.refilled(hello.runtime)
		before := b.warm.waiting(hello.runtime)
		all, cold := b.warm.starts(hello.runtime)
		var jobs sync.WaitGroup
		failed := make(chan error, before)
		for range before {
			jobs.Go(func() { failed <- hello.on(warmWay, b.warm, nobody).run(0) })
		}
		var from, to time.Time // the first claim, the last sandbox to come
		for quiet, last := time.Now(), before; from.IsZero() || last == 0 || time.Since(quiet) < 2*time.Second; time.Sleep(10 * time.Millisecond) {
			now := b.warm.waiting(hello.runtime)
			switch {
			case now < last && from.IsZero():
				from = time.Now()
			case now > last:
				to = time.Now()
			}
			if now != last {
				quiet, last = time.Now(), now
			}
			if time.Since(quiet) > 30*time.Second {
				b.t.Fatalf("%d jobs took no sandbox, or none came after that: %d wait", before, now)
			}
		}
		jobs.Wait()
		for range before {
			b.must(<-failed)
		}
		allNow, coldNow := b.warm.starts(hello.runtime)
		if took := allNow - all - (coldNow - cold); to.After(from) {
			sandboxes += took + float64(b.warm.waiting(hello.runtime)-before)
			busy += to.Sub(from)
		}
	}
	return sandboxes / busy.Seconds()
}

// arrivals submits jobs with a gap between them, and returns how long each took from when
// it was due, the share that got a sandbox that waited, and the share of these in which Python waited.
func (b *bench) arrivals(gap func() time.Duration, lasts time.Duration) (_ times, hits, preloaded float64) {
	b.t.Helper()
	b.refilled(hello.runtime)
	all, cold := b.warm.starts(hello.runtime)
	before := b.warm.preloadedStarts(hello.runtime)
	run := hello.on(warmWay, b.warm, nobody).run
	var mu sync.Mutex
	var took times
	var failed error
	var jobs sync.WaitGroup
	due := time.Now()
	for end := due.Add(lasts); due.Before(end); due = due.Add(gap()) {
		time.Sleep(time.Until(due))
		began := due
		jobs.Go(func() {
			err := run(0)
			d := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
			if err != nil {
				failed = err
			}
		})
	}
	jobs.Wait()
	b.must(failed)
	allNow, coldNow := b.warm.starts(hello.runtime)
	waited := allNow - all - (coldNow - cold)
	return took, waited / (allNow - all), (b.warm.preloadedStarts(hello.runtime) - before) / max(waited, 1)
}
