package autoscale

import (
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// Common is how the pool is named that has no labels: the workers that are kept for no jobs.
	Common = "common"
	// MostPools is how many are counted apart at most.
	MostPools = 64
)

// Pools are the groups of workers that are counted apart, each by labels that a job has to name to be counted there. The one
// without labels is the common one.
type Pools []job.Labels

// ParsePools reads pools, each as [job.Labels.String] writes its labels, or [Common]. None at all is the common one.
func ParsePools(words []string) (Pools, error) {
	if len(words) == 0 {
		return Pools{nil}, nil
	}
	if len(words) > MostPools {
		return nil, fmt.Errorf("%d pools are too many: want 1 to %d", len(words), MostPools)
	}
	var p Pools
	var names []string
	for _, word := range words {
		var labels job.Labels
		if word != Common {
			var err error
			switch labels, err = job.ParseLabels(word, job.MaxPlacement); {
			case err != nil:
				return nil, err
			case len(labels) == 0:
				return nil, fmt.Errorf("it is empty: want labels, as in pool=exams,zone=a, or %s", Common)
			}
		}
		p = append(p, labels)
		name := p.Name(len(p) - 1)
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("%s is given more than once", name)
		}
		names = append(names, name)
	}
	return p, nil
}

// Name is how the pool of that index is named.
func (p Pools) Name(i int) string {
	if len(p[i]) == 0 {
		return Common
	}
	return p[i].String()
}

// HasCommon reports whether the common pool is among them.
func (p Pools) HasCommon() bool {
	return p.narrowest(func(l job.Labels) bool { return len(l) == 0 }) >= 0
}

// OfJob is the index of the pool that jobs with that placement are counted with: of those whose labels it names, the one with
// the most, and the first of these. -1 is none. One that names none of them is counted with the common pool if common says
// that a worker of it runs such jobs, as does one without a placement.
func (p Pools) OfJob(placement job.Labels, common func(placement job.Labels) bool) int {
	i := p.narrowest(func(l job.Labels) bool { return placement.Serves(l, nil) })
	if i >= 0 && len(p[i]) == 0 && len(placement) > 0 && !common(placement) {
		return -1
	}
	return i
}

// OfWorker is the index of the pool that a worker is counted with which has these labels and is kept for jobs that name only: of those
// whose labels are enough for a job to run there, the one with the most, and the first of these. -1 is none.
func (p Pools) OfWorker(labels job.Labels, only []string) int {
	return p.narrowest(func(l job.Labels) bool { return labels.Serves(l, only) })
}

// narrowest is the first pool with the most labels of those that fit, -1 for none.
func (p Pools) narrowest(fits func(job.Labels) bool) int {
	at := -1
	for i, l := range p {
		if fits(l) && (at < 0 || len(l) > len(p[at])) {
			at = i
		}
	}
	return at
}
