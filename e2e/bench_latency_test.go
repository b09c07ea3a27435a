package e2e

import (
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// times are how long each run of one thing took.
type times []time.Duration

// percentile is by nearest rank: the least that so many in a hundred did not exceed.
func (t times) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// cells are ratios to a reference, then the times themselves.
func (t times) cells(reference time.Duration) []string {
	var ratios, absolute []string
	for _, p := range []int{50, 95, 99} {
		d := t.percentile(p)
		ratios = append(ratios, number2(ratio(d, reference)))
		absolute = append(absolute, milliseconds(d))
	}
	return append(ratios, absolute...)
}

// latencies measures programs one at a time, and returns what hello took in each way.
func (b *bench) latencies() map[string]times {
	b.t.Helper()
	s := b.table.section("Latency: one job at a time, the machine idle before each",
		"program", "run by", "n", "p50 ÷", "p95 ÷", "p99 ÷", "p50 ms", "p95 ms", "p99 ms")
	s.notef("÷: divided by the p50 of `podman run --rm` of the same program. Glovebox is submit → result over HTTP in one request (`Prefer: wait`), " +
		"through api, Redis, worker and S3, with a worker's defaults, and what it preloads preloaded; cold is `GLOVEBOX_WARM=0`. Only Glovebox stores what a program leaves and says. " +
		"`podman run --rm` and bare `runsc run` have the same rootless user, image, runsc and flags of it, read-only root and no network; that Podman is without Glovebox's configuration.")
	s.notef("To compile and run is what the runtime c does: `gcc -O2`, then the program. The host's Python has no pandas.")
	parts := b.table.section("Where a job's time goes: medians", "program", "run by", "queued ms", "until the first instruction ms", "program ms", "the rest ms")
	parts.notef("As the result says, of the jobs above. The rest: HTTP, and after the program's end its artifacts, its result and its record.")
	var ofHello map[string]times
	for _, m := range []struct {
		program program
		rounds  int
		most    time.Duration
	}{{hello, 34, 130 * time.Second}, {chart, 17, 100 * time.Second}, {nodeHello, 17, 45 * time.Second}, {compiled, 17, 60 * time.Second}} {
		took, results := b.latency(m.program, m.rounds, m.most)
		reference := took[podmanWay].percentile(50)
		for _, name := range []string{warmWay, coldWay, podmanWay, runscWay, hostWay} {
			if t := took[name]; len(t) > 0 {
				s.row(append([]string{m.program.name, name, fmt.Sprint(len(t))}, t.cells(reference)...)...)
			}
			if r := results[name]; len(r) > 0 {
				parts.row(append([]string{m.program.name, name}, stations(r, took[name])...)...)
			}
		}
		p50 := ratio(took[warmWay].percentile(50), reference)
		switch m.program.name {
		case hello.name:
			ofHello = took
			b.table.check("warm hello, idle, p50 ÷ `podman run --rm`", "≤ 0.12", number2(p50), holds(p50 <= 0.12))
			p99 := ratio(took[warmWay].percentile(99), reference)
			b.table.check("warm hello, idle, p99 ÷ `podman run --rm`, its p50", "≤ 0.5", number2(p99), holds(p99 <= 0.5))
		case chart.name:
			b.table.check("warm chart, p50 ÷ `podman run --rm`", "≤ 0.10", number2(p50), holds(p50 <= 0.10))
		}
	}
	return ofHello
}

// latency runs a program in each way in turn, for so many rounds, or fewer where these
// would take too long, and returns what Glovebox said of it, too. A round before them is not
// measured. Warm ones, of whom the most is asked, have three turns a round.
func (b *bench) latency(p program, rounds int, most time.Duration) (map[string]times, map[string][]job.Result) {
	b.t.Helper()
	most, rounds = b.scaled(most), b.times(rounds)
	b.says("latency of "+p.name, most)
	took, results := map[string]times{}, map[string][]job.Result{}
	keep := func(way string) func(job.Result) {
		return func(r job.Result) { results[way] = append(results[way], r) }
	}
	warm, others := p.on(warmWay, b.warm, keep(warmWay)), p.elsewhere(b.t, 1)
	turns := slices.Concat([]way{warm, p.on(coldWay, b.cold, keep(coldWay)), warm, others[0], warm}, others[1:])
	first := 1
	if b.trial() {
		first = 0
	}
	deadline := time.Now().Add(most)
	for round := range first + rounds {
		if round > first && time.Now().After(deadline) {
			break
		}
		if round == first {
			clear(results)
		}
		for _, w := range turns {
			if w.name == warmWay {
				b.refilled(p.runtime)
			} else {
				b.settle()
			}
			d, err := w.took()
			b.must(err)
			if round >= first {
				took[w.name] = append(took[w.name], d)
			}
		}
	}
	return took, results
}

// stations is how long jobs were at each, by their results, and how long that leaves.
func stations(results []job.Result, took times) []string {
	var queued, startup, program, rest times
	for n, r := range results {
		q, s, p := span(r.Timing.QueueMS), span(r.Timing.StartupMS), span(r.Usage.WallMS)
		queued, startup, program, rest = append(queued, q), append(startup, s), append(program, p), append(rest, took[n]-q-s-p)
	}
	var cells []string
	for _, t := range []times{queued, startup, program, rest} {
		cells = append(cells, milliseconds(t.percentile(50)))
	}
	return cells
}

func span(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
