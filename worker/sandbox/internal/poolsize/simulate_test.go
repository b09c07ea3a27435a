package poolsize

import (
	"math/rand/v2"
	"slices"
	"time"
)

// simulation is a pool with a clock of its own: programs come, each takes a sandbox that waits, and one refiller
// replaces them one after the other.
type simulation struct {
	random *rand.Rand
	kinds  []simulated
	refill func(*rand.Rand) time.Duration
	memory int64 // MiB
	// fixed has each kind keep its Promised, and replaces what was wanted last, as pools do that know no rates.
	fixed bool
	// missCosts has a program that misses take the refiller's processor for as long as a refill.
	missCosts bool

	now      time.Time
	refills  Refills
	busy     time.Time // until when the refiller is
	making   int       // what it makes, -1: nothing
	began    time.Time
	most     int64     // MiB that waited at once
	gone     int       // sandboxes that were taken away
	measured time.Time // from when on hits count
}

// simulated is one kind of a simulation.
type simulated struct {
	Kind
	rate func(at time.Duration) float64 // programs a second, at most most
	most float64
	// burst is how many come at once.
	burst int

	arrivals     Arrivals
	next, wanted time.Time
	refilled     time.Time // when a refill of it began last
	waits        int
	hits, came   int
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func steadily(rate float64) (func(time.Duration) float64, float64) {
	return func(time.Duration) float64 { return rate }, rate
}

// around is a refill that takes refillTime, more or less.
func around() func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(float64(refillTime) * (0.6 + 0.8*r.Float64())) }
}

// run simulates that time. Hits count after the first warmUp of it.
func (s *simulation) run(seed uint64, warmUp, length time.Duration) {
	s.random = rand.New(rand.NewPCG(seed, 58))
	s.now, s.making, s.measured = began, -1, began.Add(warmUp)
	for i := range s.kinds {
		s.kinds[i].next = s.draw(i, began)
	}
	s.startRefill()
	for end := began.Add(length); ; {
		next := slices.MinFunc(s.kinds, func(a, b simulated) int { return a.next.Compare(b.next) }).next
		tidy := s.now.Truncate(tidies).Add(tidies)
		if s.making >= 0 && s.busy.Before(next) {
			next = s.busy
		}
		if tidy.Before(next) {
			next = tidy
		}
		if next.After(end) {
			return
		}
		s.now = next
		switch {
		case s.making >= 0 && !s.busy.After(s.now):
			s.refills.Note(s.now.Sub(s.began))
			s.kinds[s.making].waits++
			s.making = -1
		case !tidy.After(s.now):
			s.tidy()
		default:
			for i := range s.kinds {
				if !s.kinds[i].next.After(s.now) {
					s.arrive(i)
				}
			}
		}
		s.most = max(s.most, s.holds())
		s.startRefill()
	}
}

const tidies = 3 * time.Second

// draw is when a kind's next programs come, by thinning.
func (s *simulation) draw(i int, after time.Time) time.Time {
	k := s.kinds[i]
	for {
		after = after.Add(time.Duration(s.random.ExpFloat64() / k.most * float64(time.Second) * float64(max(k.burst, 1))))
		if s.random.Float64()*k.most <= k.rate(after.Sub(began)) {
			return after
		}
	}
}

func (s *simulation) arrive(i int) {
	k := &s.kinds[i]
	for range max(k.burst, 1) {
		k.arrivals.Note(s.now)
		k.wanted = s.now
		counts := !s.now.Before(s.measured)
		if counts {
			k.came++
		}
		if k.waits > 0 {
			k.waits--
			if counts {
				k.hits++
			}
		} else if s.missCosts && s.making >= 0 {
			s.busy = s.busy.Add(s.refill(s.random))
		}
	}
	k.next = s.draw(i, s.now)
}

// plan is what the rule says, or the fixed sizes.
func (s *simulation) plan() Plan {
	kinds := make([]Kind, len(s.kinds))
	for i := range s.kinds {
		k := &s.kinds[i]
		k.Rate, k.Dispersion = k.arrivals.Rate(s.now), k.arrivals.Dispersion(s.now)
		kinds[i] = k.Kind
	}
	p := Rule{MB: s.memory, Refill: s.refills.Mean(), Variation: s.refills.Variation()}.Plan(kinds)
	for i := range s.kinds {
		if s.fixed {
			p.Sizes[i] = s.kinds[i].Promised
		}
		s.kinds[i].Had = p.Sizes[i]
	}
	return p
}

func (s *simulation) startRefill() {
	if s.making >= 0 {
		return
	}
	p := s.plan()
	var lacks []Lack
	for i, k := range s.kinds {
		if k.waits < p.Sizes[i] && s.holds()+k.MB <= s.memory {
			lacks = append(lacks, Lack{i, k.waits, k.refilled})
		}
	}
	if len(lacks) == 0 {
		return
	}
	s.making = lacks[p.Next(lacks)].Kind
	if s.fixed {
		s.making = slices.MaxFunc(lacks, func(a, b Lack) int { return s.kinds[a.Kind].wanted.Compare(s.kinds[b.Kind].wanted) }).Kind
	}
	s.kinds[s.making].refilled = s.now
	s.began, s.busy = s.now, s.now.Add(s.refill(s.random))
}

// tidy takes away what is too many.
func (s *simulation) tidy() {
	p := s.plan()
	for i := range s.kinds {
		if many := s.kinds[i].waits - p.Sizes[i]; many > 0 {
			s.kinds[i].waits -= many
			s.gone += many
		}
	}
}

func (s *simulation) holds() (mb int64) {
	for _, k := range s.kinds {
		mb += int64(k.waits) * k.MB
	}
	return mb
}

func (s *simulation) hitRate() float64 {
	hits, came := 0, 0
	for _, k := range s.kinds {
		hits, came = hits+k.hits, came+k.came
	}
	return float64(hits) / float64(came)
}
