package poolsize

import (
	"fmt"
	"math"
	"testing"
	"time"
)

const refillTime = 220 * time.Millisecond

// three are kinds of which programs come in these shares, together at that share of the rate of refills.
func three(load float64, promised int) []simulated {
	var kinds []simulated
	for _, share := range []float64{0.6, 0.3, 0.1} {
		k := simulated{Kind: Kind{MB: 40, Promised: promised}}
		k.rate, k.most = steadily(share * load / refillTime.Seconds())
		kinds = append(kinds, k)
	}
	return kinds
}

// TestSimulate80: programs of three kinds come at random at 80 % of the rate of refills. 95 % of them and more find a
// sandbox that waits, with no more memory than pools of a fixed size take for less, also where those that find none
// take the refiller's time.
func TestSimulate80(t *testing.T) {
	t.Parallel()
	const fixed = 4
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	for _, missCosts := range []bool{false, true} {
		t.Run(fmt.Sprintf("a miss costs a refill: %t", missCosts), func(t *testing.T) {
			t.Parallel()
			all, allFixed, least := 0.0, 0.0, 1.0
			shrunk := 0
			for seed := range uint64(seeds) {
				s := &simulation{refill: around(), memory: 3 * fixed * 40, missCosts: missCosts, kinds: three(0.8, 2)}
				s.run(seed, 2*time.Minute, 12*time.Minute)
				f := &simulation{refill: around(), memory: 3 * fixed * 40, missCosts: missCosts, kinds: three(0.8, fixed), fixed: true}
				f.run(seed, 2*time.Minute, 12*time.Minute)
				if s.most > f.most {
					t.Errorf("seed %d: %d MiB wait, and %d of a fixed size", seed, s.most, f.most)
				}
				all, allFixed, least = all+s.hitRate()/float64(seeds), allFixed+f.hitRate()/float64(seeds), min(least, s.hitRate())
				shrunk += s.gone
			}
			t.Logf("hits: %.1f %%, at least %.1f %% of a seed; of a fixed size %.1f %%; a pool took away %.1f sandboxes in 12 minutes, of 2600 that were used", 100*all, 100*least, 100*allFixed, float64(shrunk)/float64(seeds))
			if all < 0.95 || all <= allFixed {
				t.Errorf("the hit rate is %.3f, and %.3f of a fixed size: want 0.95, and more than that", all, allFixed)
			}
			if shrunk/seeds > 26 {
				t.Errorf("%d sandboxes were taken away unused, more than 1 %%", shrunk/seeds)
			}
		})
	}
}

// TestSimulateFlood: programs of one kind come three times as often as sandboxes can be started. Those of others, that come
// now and then, still find one that waits.
func TestSimulateFlood(t *testing.T) {
	t.Parallel()
	var kinds []simulated
	for _, rate := range []float64{3 / refillTime.Seconds(), 0.2, 0.02} {
		k := simulated{Kind: Kind{MB: 40, One: true, Promised: 2}}
		k.rate, k.most = steadily(rate)
		kinds = append(kinds, k)
	}
	s := &simulation{refill: around(), memory: 12 * 40, kinds: kinds}
	s.run(1, 2*time.Minute, time.Hour)
	for i, k := range s.kinds {
		t.Logf("kind %d: %d of %d found one", i, k.hits, k.came)
	}
	for _, k := range s.kinds[1:] {
		if 10*k.hits < 9*k.came {
			t.Errorf("%d of %d programs found one that waits, want nine in ten", k.hits, k.came)
		}
	}
	if flood := s.kinds[0]; 4*flood.hits < flood.came {
		t.Errorf("%d of %d programs of the flood found one, want a quarter: a third is what can be", flood.hits, flood.came)
	}
}

// TestSimulateChange: demand moves from one kind to another, and memory with it.
func TestSimulateChange(t *testing.T) {
	t.Parallel()
	const seeds = 2
	var all, allFixed float64
	for seed := range uint64(seeds) {
		moving := func(promised int) []simulated {
			var kinds []simulated
			for i := range 3 {
				kinds = append(kinds, simulated{Kind: Kind{MB: 40, Promised: promised}, most: 0.8 / refillTime.Seconds(), rate: func(at time.Duration) float64 {
					if int(at/(10*time.Minute))%3 == i {
						return 0.7 / refillTime.Seconds()
					}
					return 0.05 / refillTime.Seconds()
				}})
			}
			return kinds
		}
		s := &simulation{refill: around(), memory: 9 * 40, kinds: moving(1)}
		s.run(seed, 2*time.Minute, 40*time.Minute)
		f := &simulation{refill: around(), memory: 9 * 40, kinds: moving(3), fixed: true}
		f.run(seed, 2*time.Minute, 40*time.Minute)
		all, allFixed = all+s.hitRate()/seeds, allFixed+f.hitRate()/seeds
	}
	t.Logf("hits: %.1f %%, of a fixed size %.1f %%", 100*all, 100*allFixed)
	if all < 0.95 || all < allFixed+0.02 {
		t.Errorf("the hit rate is %.3f, and %.3f of a fixed size: want 0.95, and 0.02 more than that", all, allFixed)
	}
}

// TestSimulateBursts: where twenty programs come at once, each minute or so, more wait than where as many come one by
// one, and more find one.
func TestSimulateBursts(t *testing.T) {
	t.Parallel()
	const seeds = 3
	hits := func(memory int64, fixed bool, promised int) float64 {
		sum := 0.0
		for seed := range uint64(seeds) {
			k := simulated{Kind: Kind{MB: 40, Promised: promised}, burst: 20}
			k.rate, k.most = steadily(20.0 / 60)
			s := &simulation{refill: around(), memory: memory, kinds: []simulated{k}, fixed: fixed}
			s.run(seed, 5*time.Minute, time.Hour)
			sum += s.hitRate() / seeds
		}
		return sum
	}
	follows, fixed := hits(1600, false, 4), hits(1600, true, 4)
	t.Logf("hits: %.1f %%, of 4 that wait %.1f %%", 100*follows, 100*fixed)
	if follows < 0.8 || fixed > 0.3 {
		t.Errorf("the hit rate is %.3f, and %.3f of 4 that wait: want 0.8, and less than 0.3", follows, fixed)
	}
}

// TestSimulateLull: nothing waits for ever for programs that come no more, and what is promised stays.
func TestSimulateLull(t *testing.T) {
	t.Parallel()
	k := simulated{Kind: Kind{MB: 40, Promised: 2}, most: 4, rate: func(at time.Duration) float64 {
		if at < 10*time.Minute {
			return 4
		}
		return 0.01
	}}
	sizes := map[time.Duration]int{}
	s := &simulation{refill: around(), memory: math.MaxInt64, kinds: []simulated{k}}
	for _, until := range []time.Duration{10 * time.Minute, 11 * time.Minute, 30 * time.Minute} {
		s.kinds, s.refills = []simulated{k}, Refills{}
		s.run(1, 0, until)
		sizes[until] = s.kinds[0].Had
	}
	if sizes[10*time.Minute] < 6 || sizes[11*time.Minute] < 4 || sizes[30*time.Minute] != 2 {
		t.Errorf("got %v: want 6 and more, no few a minute later, and 2 in the end", sizes)
	}
}
