package simulation

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/autoscale"
)

// replay is a fleet in a time of its own, in which a minute takes no time at all: workers come and go as
// [autoscale.Scaler] wants, and jobs wait for a slot of theirs.
type replay struct {
	policy  autoscale.Policy
	now     time.Duration
	arrive  []time.Duration // when jobs come, in order
	rng     *rand.Rand
	waiting []time.Duration // since when, in order
	running ends
	ended   int64
	workers int
	booting []time.Duration // when they take jobs
	waits   []time.Duration

	wanted, there, filled line
}

// ends are the times at which running jobs end.
type ends []time.Duration

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(time.Duration)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// step goes on by a second.
func (r *replay) step(service time.Duration) {
	r.now += time.Second
	for len(r.arrive) > 0 && r.arrive[0] <= r.now {
		r.waiting, r.arrive = append(r.waiting, r.arrive[0]), r.arrive[1:]
	}
	for len(r.running) > 0 && r.running[0] <= r.now {
		heap.Pop(&r.running)
		r.ended++
	}
	for len(r.booting) > 0 && r.booting[0] <= r.now {
		r.booting = r.booting[1:]
		r.workers++
	}
	for len(r.waiting) > 0 && len(r.running) < r.workers*r.policy.Slots {
		r.waits = append(r.waits, r.now-r.waiting[0])
		r.waiting = r.waiting[1:]
		heap.Push(&r.running, r.now+time.Duration(float64(service)*math.Exp(scatter*r.rng.NormFloat64()-scatter*scatter/2)))
	}
}

// scale has as many workers as are wanted: those that start last go first, then those that have no job.
func (r *replay) scale(wanted int) {
	for r.workers+len(r.booting) < wanted {
		r.booting = append(r.booting, r.now+r.policy.Boot)
	}
	for r.workers+len(r.booting) > wanted && len(r.booting) > 0 {
		r.booting = r.booting[:len(r.booting)-1]
	}
	for r.workers > wanted && len(r.running) <= (r.workers-1)*r.policy.Slots {
		r.workers--
	}
}

// load is what the scaler sees.
func (r *replay) load(start time.Time) autoscale.Load {
	l := autoscale.Load{
		At: start.Add(r.now), Workers: r.workers,
		Tenants: []autoscale.Tenant{{Name: "all", Queued: int64(len(r.waiting)), Running: int64(len(r.running)), Ended: r.ended}},
	}
	if len(r.waiting) > 0 {
		l.Oldest = r.now - r.waiting[0]
	}
	return l
}

// day is jobs that come for four hours: few at first, then more and more, a class that sends all at once,
// fewer again, an hour of nothing, and one more job.
func day(rng *rand.Rand) (jobs []time.Duration) {
	for at := time.Duration(0); at < 2*time.Hour; {
		perSecond := 0.02 + 4*math.Pow(math.Sin(math.Pi*at.Hours()/2), 2)
		if at += time.Duration(rng.ExpFloat64() / perSecond * float64(time.Second)); at > time.Hour && len(jobs) > 0 && jobs[len(jobs)-1] <= time.Hour {
			for range 600 {
				jobs = append(jobs, at)
			}
		}
		jobs = append(jobs, at)
	}
	return append(jobs, 3*time.Hour+30*time.Minute)
}

// TestWantedFollows replays arrivals that come and go: the number of workers follows them, jobs wait for no
// longer than was asked for, nothing flaps, and in the end there is none.
func TestWantedFollows(t *testing.T) {
	t.Parallel()
	const service = 5 * time.Second
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // arrivals are no secret
		p, err := autoscale.Policy{Slots: 4, Most: 50}.Filled()
		if err != nil {
			t.Fatal(err)
		}
		scaler, err := autoscale.New(p)
		if err != nil {
			t.Fatal(err)
		}
		r := &replay{policy: p, rng: rng, arrive: day(rng)}
		r.wanted.name, r.there.name, r.filled.name = "workers wanted", "workers there", "workers that the jobs that run fill"
		jobs, start := len(r.arrive), time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
		last, grew, turns, most, slots := 0, true, 0, 0, 0.0
		for r.now < 4*time.Hour {
			r.step(service)
			slots += float64(r.workers*p.Slots) / 3600
			if r.now%(15*time.Second) != 0 {
				continue
			}
			d := scaler.Next(r.load(start))
			r.scale(d.Wanted)
			if d.Wanted != last {
				if up := d.Wanted > last; up != grew {
					turns, grew = turns+1, up
				}
				last, most = d.Wanted, max(most, d.Wanted)
			}
			minute := r.now.Minutes()
			r.wanted.add(minute, float64(d.Wanted))
			r.there.add(minute, float64(r.workers))
			r.filled.add(minute, float64(len(r.running))/float64(p.Slots))
		}
		p50, p95, p100 := percentile(r.waits, 50), percentile(r.waits, 95), percentile(r.waits, 100)
		t.Logf("seed %d: %d jobs waited for %s (p50), %s (p95), %s at most; up to %d workers, %.0f slot hours, %d turns", seed, jobs, p50, p95, p100, most, slots, turns)
		if len(r.waits) != jobs || r.ended != int64(jobs) {
			t.Errorf("seed %d: %d of %d jobs began, %d ended", seed, len(r.waits), jobs, r.ended)
		}
		if p50 > 2*time.Second || p100 > p.Clear+time.Minute {
			t.Errorf("seed %d: jobs waited for %s (p50) and %s at most, want 2 s, and a minute more than %s", seed, p50, p100, p.Clear)
		}
		if turns > 12 {
			t.Errorf("seed %d: the number of workers turned %d times in four hours, want 12 at most", seed, turns)
		}
		if last != 0 || r.workers != 0 {
			t.Errorf("seed %d: in the end %d workers are wanted and %d there, want none", seed, last, r.workers)
		}
		if most > 35 {
			t.Errorf("seed %d: up to %d workers were wanted for 20 slots of stream and 600 jobs at once, want 35 at most", seed, most)
		}
		if dir := os.Getenv("GLOVEBOX_SIMULATE_FLEET"); dir != "" && seed == 0 {
			text := chart{title: "Workers wanted, where arrivals come and go", x: "minutes", y: "workers"}.svg(r.wanted, r.there, r.filled)
			if err := os.WriteFile(filepath.Join(dir, "autoscale.svg"), []byte(text), 0o644); err != nil { //nolint:gosec // it is for everybody
				t.Fatal(err)
			}
		}
	}
}
