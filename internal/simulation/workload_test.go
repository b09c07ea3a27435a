package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// size is how large a simulation is. The same size and seed give the same workload.
type size struct {
	workers, slots int // slots of each worker
	tenants, jobs  int
	mean           time.Duration // that a job runs
	spread         float64       // how many times as long the jobs of one tenant may run as those of another; 1 for all alike
	seed           uint64
	// fair is the least that Jain's index of the tenants' shares may be. In a small fleet most tenants come and go within
	// the second that the share of each is counted anew.
	fair float64
}

// span is how long the fleet is busy with all jobs.
func (z size) span() time.Duration {
	return time.Duration(float64(z.mean) * float64(z.jobs) / float64(z.workers*z.slots))
}

// tenant is what one asks for.
type tenant struct {
	name     string
	kind     string
	quota    int // of jobs at once, 0 for none
	priority job.Priority
	arrivals []arrival // in the order of their times
	jobs     int
}

// arrival is jobs that are submitted together.
type arrival struct {
	at   time.Duration
	runs []time.Duration // of each job
}

// kinds of appetite, in turns.
var kinds = []string{"all at once", "a stream", "bursts", "a class at its hour"}

const (
	// heaviest is how the jobs of tenants go down from the largest: the nth has n^-heaviest of its jobs.
	heaviest = 1.1
	// fewest jobs of a tenant.
	fewest = 5
	// scatter is the standard deviation of the logarithm of how long jobs run.
	scatter = 0.8
)

// draw makes the workload of a size: tenants of very different appetites, who together ask for all that the
// fleet can do.
func draw(z size) []tenant {
	rng := rand.New(rand.NewPCG(z.seed, 0)) //nolint:gosec // a workload is no secret
	weights, sum := make([]float64, z.tenants), 0.0
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -heaviest)
		sum += weights[i]
	}
	list, left := make([]tenant, z.tenants), z.jobs
	for i := z.tenants - 1; i >= 0; i-- { // what rounding leaves is the largest one's
		t := &list[i]
		t.name, t.kind, t.priority = fmt.Sprintf("t%02d", i), kinds[i%len(kinds)], job.Normal
		t.jobs = max(int(weights[i]/sum*float64(z.jobs)), fewest)
		if i == 0 {
			t.jobs = left
		}
		left -= t.jobs
		if i%10 == 7 {
			t.quota = max(z.workers*z.slots/20, 2)
		}
		mean := float64(z.mean) * math.Pow(z.spread, rng.Float64()-0.5)
		t.arrivals = arrivals(rng, t.kind, t.jobs, z.span())
		for a := range t.arrivals {
			for j := range t.arrivals[a].runs {
				t.arrivals[a].runs[j] = time.Duration(mean * math.Exp(scatter*rng.NormFloat64()-scatter*scatter/2))
			}
		}
	}
	return list
}

// arrivals says when so many jobs come, within the first nine tenths of the span.
func arrivals(rng *rand.Rand, kind string, jobs int, span time.Duration) []arrival {
	within := float64(span) * 0.9
	at := func(share float64) time.Duration { return time.Duration(share * within) }
	var list []arrival
	add := func(when time.Duration, n int) {
		if n > 0 {
			list = append(list, arrival{at: when, runs: make([]time.Duration, n)})
		}
	}
	switch kind {
	case "all at once":
		add(at(0.1*rng.Float64()), jobs)
	case "a class at its hour":
		add(at(0.3+0.4*rng.Float64()), jobs)
	case "bursts":
		const bursts = 10
		for n := range bursts {
			add(at(rng.Float64()), (n+1)*jobs/bursts-n*jobs/bursts)
		}
	default:
		for range jobs {
			add(at(rng.Float64()), 1)
		}
	}
	slices.SortFunc(list, func(a, b arrival) int { return int(a.at - b.at) })
	return list
}
