package record

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// poolWants is what a tenant that has jobs with placements wants of workers.
type poolWants struct {
	tenant string
	terms  job.Terms
	// common says that it has a backlog of jobs without a placement.
	common bool
	pools  []wantedPool
	// written are the windows that are in Redis for a while, as nameOf has it; "" where none are there, "?" for others.
	written string
}

// wantedPool is one of its placements, in use.
type wantedPool struct {
	placement  string
	labels     job.Labels
	backlogged bool
	// held is how many of its jobs are released or run.
	held int64
}

// held is how many jobs in pools are released or run.
func (w poolWants) held() (n int64) {
	for _, p := range w.pools {
		n += p.held
	}
	return n
}

// poolWindows is how many jobs a tenant may have released or running of each placement, and without one.
type poolWindows struct {
	common int64
	pools  map[string]int64
	bounds []poolBound
}

// poolBound is how many jobs a tenant may have released or running of several placements together; "" is none.
type poolBound struct {
	placements []string
	most       int64
}

// sharePools shares the workers out. Of each worker, what runs ahead of its slots is divided between the tenants that have a backlog which it
// serves, and a tenant's part between its own backlogs there. So a tenant gets no more by naming many placements that mean the same workers,
// and one whose pools have nothing in common gets all of each. A pool without a backlog gets what it would have with one, or one job while others fill it.
// Where a worker serves a pool, it is 1 at least; where none does, 0. As that may be more than a tenant's part, bounds hold several of its pools to it
// that mean the same workers. others have a backlog, too, all of jobs without a placement.
func sharePools(workers []fleet.Slots, wants []poolWants, others int64) []poolWindows {
	s := newPoolSets(kindsOf(workers))
	common := s.of("", nil)
	s.sets[common.set].used = true
	filled := map[string]int64{}
	contenders := make([]int64, len(s.kinds))
	for _, k := range common.kinds {
		contenders[k] = others
	}
	backlogs := make([][]int64, len(wants)) // of each tenant, by kind
	for i, w := range wants {
		for _, p := range w.pools {
			filled[p.placement] += p.held
			if at := s.of(p.placement, p.labels).set; p.backlogged {
				s.sets[at].used = true
			}
		}
		backlogs[i] = s.backlogs(w)
		for k, n := range backlogs[i] {
			contenders[k] += min(n, 1)
		}
	}
	windows := make([]poolWindows, len(wants))
	for i, w := range wants {
		backlogs := backlogs[i]
		// ahead is the tenant's part of what runs ahead of the slots of such a worker.
		ahead := func(k int) float64 {
			tenants := contenders[k]
			if backlogs[k] == 0 { // as it would be with one
				tenants++
			}
			return float64(runsAhead*s.kinds[k].Slots) / float64(tenants)
		}
		window := func(p servedPool, backlogged bool) int64 {
			part := 0.0
			for _, k := range p.kinds {
				own := backlogs[k]
				if !backlogged {
					own++
				}
				part += ahead(k) / float64(own)
			}
			return roundUp(part)
		}
		got := poolWindows{common: window(common, w.common), pools: map[string]int64{}}
		got.common = max(got.common, 1) // as where no worker is seen: the next one finds something to do
		for _, p := range w.pools {
			served := s.of(p.placement, p.labels)
			n := window(served, p.backlogged)
			if !p.backlogged && filled[p.placement] >= runsAhead*served.slots {
				n = min(n, 1)
			}
			got.pools[p.placement] = n
		}
		got.bounds = s.bounds(w, got, ahead)
		windows[i] = got
	}
	return windows
}

// bounds are those of the tenant's windows that are more, together, than its part of the workers which somebody's placement means: else whoever
// names these workers one by one would get more than whoever names all of them.
func (s *poolSets) bounds(w poolWants, windows poolWindows, ahead func(kind int) float64) (bounds []poolBound) {
	in := map[int][]string{} // set → placements whose workers are all in it
	for _, p := range append([]wantedPool{{}}, w.pools...) {
		for _, set := range s.supersets(s.of(p.placement, p.labels).set) {
			in[set] = append(in[set], p.placement)
		}
	}
	at := map[string]int{}
	for _, set := range slices.Sorted(maps.Keys(in)) {
		placements, together, part := in[set], int64(0), 0.0
		for _, p := range placements {
			if p == "" {
				together += windows.common
			} else {
				together += windows.pools[p]
			}
		}
		for _, k := range s.sets[set].kinds {
			part += ahead(k)
		}
		most := max(roundUp(part), 1)
		if len(placements) == 1 || together <= most {
			continue
		}
		name := strings.Join(placements, " ")
		if i, twice := at[name]; twice {
			bounds[i].most = min(bounds[i].most, most)
			continue
		}
		at[name] = len(bounds)
		bounds = append(bounds, poolBound{placements, most})
	}
	return bounds
}

// roundUp makes whole jobs of parts of them. What is added up of parts may be a little more than it is.
func roundUp(parts float64) int64 { return int64(math.Ceil(parts - 1e-9)) }

// kindsOf are the workers, those with the same labels as one. Paused ones have no slots.
func kindsOf(workers []fleet.Slots) (kinds []fleet.Slots) {
	at := map[string]int{}
	for _, w := range workers {
		if w.Slots == 0 {
			continue
		}
		name := w.Kind()
		i, known := at[name]
		if !known {
			i, at[name] = len(kinds), len(kinds)
			kinds = append(kinds, fleet.Slots{Labels: w.Labels, Only: w.Only})
		}
		kinds[i].Slots += w.Slots
	}
	return kinds
}
