package poolsize

import (
	"slices"
	"time"
)

const (
	// mostMissed is the share of a kind's programs that may find none waiting, where there is memory for that.
	mostMissed = 0.02
	// leastGain is how many programs a second find a sandbox that waits by it at least: one in the time for
	// which a kind is in demand after a program.
	leastGain = 1.0 / 300
	// mostLoad is how busy the refiller is taken to be at most. Beyond that no number of sandboxes is enough.
	mostLoad = 0.95
	// band is by how much rates may fall, as a factor, before a kind gets fewer.
	band = 1.1
	// keepsIts is by how much more another kind has to gain by a sandbox than the kind that has it loses.
	keepsIts = 1.5
)

// Kind is what is known of the sandboxes of one image, and what was promised of them.
type Kind struct {
	// MB is what one takes as it waits, MiB.
	MB int64
	// Rate is how many programs a second want one, and Dispersion how unevenly they come: 1 at random.
	Rate, Dispersion float64
	// One: one is to wait whoever comes.
	One bool
	// Asked is how many the operator has asked for, and Since when: who asked first is served first.
	Asked int
	Since time.Time
	// Promised is how many wait of a kind in demand, if memory is left.
	Promised int
	// Had is what the last plan gave the kind.
	Had int
}

// Rule is what there is to share out.
type Rule struct {
	// MB is the memory of all sandboxes that wait, MiB.
	MB int64
	// Refill is how long one takes to start, and Variation that time's squared coefficient of variation.
	Refill    time.Duration
	Variation float64
}

// Plan says how many sandboxes of each kind should wait.
type Plan struct {
	// Sizes are in the order of the kinds.
	Sizes []int
	kinds []Kind
	load  load
}

// Plan shares the memory out: to one of each kind that is to have one always, in their order; to what an
// operator asked for; then to the sandboxes that gain most hits by their memory, until but few programs of a
// kind miss; and last to what was promised to those in demand, one each in turn.
func (r Rule) Plan(kinds []Kind) Plan {
	p := Plan{Sizes: make([]int, len(kinds)), kinds: kinds, load: r.load(kinds, 1)}
	left := r.MB
	grant := func(i int) bool {
		if kinds[i].MB > left {
			return false
		}
		left -= kinds[i].MB
		p.Sizes[i]++
		return true
	}
	for i, k := range kinds {
		if k.One {
			grant(i)
		}
	}
	for _, i := range byTime(kinds) {
		for p.Sizes[i] < kinds[i].Asked && grant(i) {
		}
	}
	wanted := r.wanted(kinds, p.load)
	for i, ok := p.mostWorth(wanted, left); ok; i, ok = p.mostWorth(wanted, left) {
		grant(i)
	}
	for granted := true; granted; {
		granted = false
		for i, k := range kinds {
			granted = p.Sizes[i] < k.Promised && grant(i) || granted
		}
	}
	return p
}

// byTime are the kinds that were asked for, the first first.
func byTime(kinds []Kind) []int {
	var asked []int
	for i, k := range kinds {
		if k.Asked > 0 {
			asked = append(asked, i)
		}
	}
	slices.SortStableFunc(asked, func(i, j int) int { return kinds[i].Since.Compare(kinds[j].Since) })
	return asked
}

// mostWorth is the kind whose next sandbox gains most hits by its memory, of those that want one and for which
// there is room.
func (p Plan) mostWorth(wanted []int, left int64) (found int, ok bool) {
	most := 0.0
	for i, k := range p.kinds {
		if p.Sizes[i] >= wanted[i] || k.MB > left {
			continue
		}
		worth := p.Gain(i, p.Sizes[i]) / float64(max(k.MB, 1))
		if p.Sizes[i] < k.Had {
			worth *= keepsIts
		}
		if worth > most {
			found, most, ok = i, worth, true
		}
	}
	return found, ok
}

// wanted is how many of each kind are wanted, had memory no end: what it had, unless that is too few, or would be
// too many even if programs came a little more often.
func (r Rule) wanted(kinds []Kind, now load) []int {
	more := r.load(kinds, band)
	wanted := make([]int, len(kinds))
	for i, k := range kinds {
		if k.Rate > 0 {
			wanted[i] = min(max(k.Had, now.enough(k)), max(more.enough(k), now.enough(k)))
		}
	}
	return wanted
}

// Gain is how many programs a second less would miss if one more waited of the kind than have do on average.
func (p Plan) Gain(kind, have int) float64 {
	return p.load.gain(p.kinds[kind], have)
}

// Lack is a kind of which fewer wait than the plan says.
type Lack struct {
	Kind, Have int
	// Refilled is when the start of one of them began last.
	Refilled time.Time
}

// Next is which of them gets the next sandbox. First are those of which none waits, in turn: by gain a kind whose
// programs come more often than sandboxes can be started would be the next each time, and the others never.
// Then it is the one that gains most. lacks is not to be empty.
func (p Plan) Next(lacks []Lack) int {
	best := 0
	for i, l := range lacks {
		if p.before(l, lacks[best]) {
			best = i
		}
	}
	return best
}

func (p Plan) before(l, other Lack) bool {
	if none := l.Have == 0; none != (other.Have == 0) {
		return none
	} else if none && !l.Refilled.Equal(other.Refilled) {
		return l.Refilled.Before(other.Refilled)
	}
	return p.Gain(l.Kind, l.Have) > p.Gain(other.Kind, other.Have)
}

// Load is which share of the time the refiller is busy. It is more than 1 where it can't keep up.
func (p Plan) Load() float64 { return p.load.offered }
