package record

import (
	"encoding/binary"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// mostSets is of how many different sets of workers, that placements mean, tenants are held to their part: those that were seen first, and each
// of a tenant's own. More than any fleet is divided into.
const mostSets = 128

// poolSets says which kinds of workers each placement means. Several may mean the same.
type poolSets struct {
	kinds  []fleet.Slots
	pools  map[string]servedPool // by placement, "" without one
	sets   []poolSet
	places map[string]int // of a set, by the bits of its kinds
}

// servedPool is a placement as workers serve it.
type servedPool struct {
	poolSet
	// set is its place among the sets.
	set   int
	slots int64
}

// poolSet is some kinds of workers.
type poolSet struct {
	kinds []int
	bits  []byte
	// used says that somebody's backlog is for just these.
	used bool
	// within has the places of all sets that it is in, once that was asked.
	within []int
	asked  bool
}

func newPoolSets(kinds []fleet.Slots) *poolSets {
	return &poolSets{kinds: kinds, pools: map[string]servedPool{}, places: map[string]int{}}
}

// of is what serves that placement.
func (s *poolSets) of(placement string, labels job.Labels) servedPool {
	if p, known := s.pools[placement]; known {
		return p
	}
	p := servedPool{poolSet: poolSet{bits: make([]byte, (len(s.kinds)+63)/64*8)}}
	for i, k := range s.kinds {
		if k.Serves(labels) {
			p.kinds = append(p.kinds, i)
			p.bits[i/8] |= 1 << (i % 8)
			p.slots += k.Slots
		}
	}
	var known bool
	if p.set, known = s.places[string(p.bits)]; !known {
		p.set = len(s.sets)
		s.places[string(p.bits)] = p.set
		s.sets = append(s.sets, p.poolSet)
	}
	s.pools[placement] = p
	return p
}

// supersets are the places of the sets in use that this one is in, and its own: none, if there are no workers in it.
func (s *poolSets) supersets(at int) []int {
	set := &s.sets[at]
	if set.asked {
		return set.within
	}
	set.asked = true
	if len(set.kinds) == 0 {
		return nil
	}
	for i, other := range s.sets {
		if i == at || i < mostSets && other.used && hasBits(other.bits, set.bits) {
			set.within = append(set.within, i)
		}
	}
	return set.within
}

func hasBits(all, some []byte) bool {
	for i := 0; i < len(some); i += 8 {
		if binary.LittleEndian.Uint64(some[i:])&^binary.LittleEndian.Uint64(all[i:]) != 0 {
			return false
		}
	}
	return true
}

// backlogs is how many backlogs the tenant has that workers of each kind serve.
func (s *poolSets) backlogs(w poolWants) []int64 {
	n := make([]int64, len(s.kinds))
	count := func(p servedPool) {
		for _, k := range p.kinds {
			n[k]++
		}
	}
	if w.common {
		count(s.of("", nil))
	}
	for _, p := range w.pools {
		if p.backlogged {
			count(s.of(p.placement, p.labels))
		}
	}
	return n
}
