package autoscale

import (
	"math"
	"time"
)

// Decision is how many workers there should be of a pool, and why.
type Decision struct {
	// Pool is the pool's name, as [Pools.Name] has it.
	Pool string    `json:"pool"`
	At   time.Time `json:"at"`
	// Wanted is the number of workers that there should be from now on.
	Wanted int `json:"wanted"`
	// Needed is what the figures of this moment ask for: Wanted follows it at once where it grows, and slowly where
	// it falls.
	Needed int `json:"needed"`
	// Why is the reason for Wanted, in words.
	Why string `json:"why"`

	// Workers take jobs, Paused ones take none.
	Workers int `json:"workers"`
	Paused  int `json:"paused"`
	// Waiting and Running are jobs, each tenant's bounded by its quota.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// ArrivalsPerSecond and ServiceMS are estimates: how many jobs come, and how long one runs.
	ArrivalsPerSecond float64 `json:"arrivals_per_second"`
	ServiceMS         int64   `json:"service_ms"`
	// OldestMS is how long a job has waited at most that only a worker was missing for.
	OldestMS int64 `json:"oldest_ms"`
}

// Scaler decides how many workers there should be, look after look. Not safe for concurrent use.
type Scaler struct {
	policy Policy
	rates  rates
	needed []moment  // of the last Hold, in order
	since  time.Time // looks follow each other without a gap since then
	wanted int
	shrunk time.Time // when workers last went
	began  bool
}

type moment struct {
	at     time.Time
	needed int
}

// New fails where the policy's fields are out of their bounds.
func New(p Policy) (*Scaler, error) {
	p, err := p.Filled()
	return &Scaler{policy: p}, err
}

// Next decides after one more look at what there is to do. Looks come every few seconds, two minutes apart at most. More
// workers are wanted at once; fewer once no more than these were needed for all of the policy's Hold, and
// by a share of them a minute. While workers are paused none go, and no more are wanted where half of all or
// more are: jobs may wait for what they wait for.
func (s *Scaler) Next(l Load) Decision {
	if !s.rates.see(l) {
		s.since, s.needed = l.At, nil
	}
	d := s.need(l)
	if !s.began {
		s.began, s.wanted = true, s.bounded(l.Workers+l.Paused)
	}
	s.needed = append(s.needed, moment{l.At, d.Needed})
	for len(s.needed) > 1 && l.At.Sub(s.needed[0].at) > s.policy.Hold {
		s.needed = s.needed[1:]
	}
	d.Wanted, d.Why = s.decide(l, d.Needed)
	return d
}

// Now is Next for a caller that asks once, and knows no past that fewer have been enough in: it falls at once, too.
func (s *Scaler) Now(l Load) Decision {
	d := s.Next(l)
	if l.Paused == 0 && d.Wanted != d.Needed {
		s.wanted = d.Needed
		d.Wanted, d.Why = d.Needed, "fewer are needed now"
	}
	return d
}

// decide is how many workers are wanted where so many are needed, and why.
func (s *Scaler) decide(l Load, needed int) (wanted int, why string) {
	peak := needed
	for _, m := range s.needed {
		peak = max(peak, m.needed)
	}
	switch {
	case l.Paused > 0 && (needed <= s.wanted || l.Paused >= l.Workers):
		return s.wanted, "workers are paused: nothing changes until they take jobs again"
	case needed > s.wanted:
		s.wanted = needed
		return s.wanted, "more are needed"
	case peak >= s.wanted:
		return s.wanted, "as many were needed within the time of hold"
	case l.At.Sub(s.since) < s.policy.Hold:
		return s.wanted, "fewer are needed, for less than the time of hold"
	case l.At.Sub(s.shrunk) < time.Minute:
		return s.wanted, "some have just gone"
	}
	s.shrunk = l.At
	s.wanted = max(peak, s.wanted-max(int(s.policy.Shrink*float64(s.wanted)), 1))
	return s.wanted, "fewer have been enough"
}

// need is how many workers the figures ask for.
func (s *Scaler) need(l Load) Decision {
	all, service, p := l.sum(), s.rates.service(s.policy.Service), s.policy
	arrivals, offered := 0.0, 0.0
	for _, t := range l.Tenants {
		n := s.rates.tenants[t.Name].perSecond()
		arrivals += n
		offered += t.most(n * service.Seconds())
	}
	if all.jobs == 0 && l.At.Sub(s.rates.came) >= quickHalf { // the stream has ended: Hold says for how long its workers stay
		offered = 0
	}
	late := max(l.Oldest.Seconds()/p.Clear.Seconds(), 1)
	backlog := min(all.waiting*service.Seconds()/(p.Clear-p.Boot).Seconds()*late, all.waiting)
	slots := max(offered+p.Spare*math.Sqrt(offered), all.running) + backlog
	workers := slots / float64(p.Slots)
	if all.jobs > 0 || l.Sessions > 0 {
		workers = max(workers, 1)
	}
	if p.Sessions > 0 {
		workers = max(workers, float64(l.Sessions)/float64(p.Sessions))
	}
	return Decision{
		Pool: l.Pool, At: l.At, Needed: s.bounded(ceil(workers)), Workers: l.Workers, Paused: l.Paused, Waiting: ceil(all.waiting), Running: ceil(all.running),
		ArrivalsPerSecond: math.Round(arrivals*1000) / 1000, ServiceMS: service.Milliseconds(), OldestMS: l.Oldest.Milliseconds(),
	}
}

func (s *Scaler) bounded(workers int) int { return max(min(workers, s.policy.Most), s.policy.Least) }

// ceil is the next whole number, where what is above one by a rounding error alone is that one.
func ceil(v float64) int { return int(min(math.Ceil(v-1e-9), math.MaxInt32)) }
