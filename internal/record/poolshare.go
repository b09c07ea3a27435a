package record

import (
	"math"

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
}

// sharePools shares the workers out. Of each worker, what runs ahead of its slots is divided between the tenants that have a backlog which it
// serves, and a tenant's part between its own backlogs there. So a tenant gets no more by naming many placements that mean the same workers,
// and one whose pools have nothing in common gets all of each. A pool without a backlog gets what it would have with one, or one job while others fill it.
// Where a worker serves a pool, it is 1 at least; where none does, 0. others have a backlog, too, all of jobs without a placement.
func sharePools(workers []fleet.Slots, wants []poolWants, others int64) []poolWindows {
	kinds := kindsOf(workers)
	filled := map[string]int64{}
	for _, w := range wants {
		for _, p := range w.pools {
			filled[p.placement] += p.held
		}
	}
	windows := make([]poolWindows, len(wants))
	parts := make([]map[string]float64, len(wants)) // by placement; "" without one
	for i := range wants {
		parts[i] = map[string]float64{}
	}
	for _, k := range kinds {
		contenders := int64(0)
		if k.Serves(nil) {
			contenders = others
		}
		backlogs := make([]int64, len(wants))
		for i, w := range wants {
			if backlogs[i] = w.backlogsAt(k); backlogs[i] > 0 {
				contenders++
			}
		}
		all := float64(runsAhead * k.Slots)
		for i, w := range wants {
			part := func(placement string, labels job.Labels, backlogged bool) {
				if !k.Serves(labels) {
					return
				}
				tenants, own := contenders, backlogs[i]
				if !backlogged { // as it would be with one
					if own++; own == 1 {
						tenants++
					}
				}
				parts[i][placement] += all / float64(tenants) / float64(own)
			}
			part("", nil, w.common)
			for _, p := range w.pools {
				part(p.placement, p.labels, p.backlogged)
			}
		}
	}
	for i, w := range wants {
		windows[i] = poolWindows{common: roundUp(parts[i][""]), pools: map[string]int64{}}
		windows[i].common = max(windows[i].common, 1) // as where no worker is seen: the next one finds something to do
		for _, p := range w.pools {
			n := roundUp(parts[i][p.placement])
			if !p.backlogged && filled[p.placement] >= runsAhead*fleet.SlotsFor(workers, p.labels) {
				n = min(n, 1)
			}
			windows[i].pools[p.placement] = n
		}
	}
	return windows
}

// roundUp makes whole jobs of parts of them. What is added up of parts may be a little more than it is.
func roundUp(parts float64) int64 { return int64(math.Ceil(parts - 1e-9)) }

// backlogsAt is how many backlogs the tenant has that such a worker serves.
func (w poolWants) backlogsAt(k fleet.Slots) (n int64) {
	if w.common && k.Serves(nil) {
		n++
	}
	for _, p := range w.pools {
		if p.backlogged && k.Serves(p.labels) {
			n++
		}
	}
	return n
}

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
