// Package autoscale says how many workers a fleet should have: enough for the jobs that come and
// for the jitter in them, and to be through with those that wait within a time. It asks nobody and
// starts nothing: start at [Scaler], which is told what there is to do and answers with a number.
package autoscale

import (
	"fmt"
	"time"
)

// Policy is what an operator wants of a fleet. The zero value of a field means its default.
type Policy struct {
	// Slots is how many jobs one worker runs at once, 1 to 1000. Defaults to 2, as a worker's
	// concurrency does.
	Slots int
	// Sessions is how many sessions one worker holds, 0 to 1000: they keep memory, not slots. 0, the default: however many there are,
	// they need one worker.
	Sessions int
	// Least and Most bound the number of workers, 0 to 10,000. Most defaults to 100.
	Least, Most int
	// Clear is within which time a queue is to be empty, the time in which workers start included.
	// It is longer than Boot. Defaults to 3 min.
	Clear time.Duration
	// Boot is how long a worker takes from being asked for to its first job. Defaults to 1 min.
	Boot time.Duration
	// Service is how long a job is taken to run until some have ended. Defaults to 5 s.
	Service time.Duration
	// Hold is for how long fewer workers have to be enough before some go, a minute at least. Defaults to 5 min.
	Hold time.Duration
	// Spare is how many slots are kept free for jitter, in square roots of those in use: with 1.5, one job
	// in twelve waits. Defaults to 1.5.
	Spare float64
	// Shrink is which share of the workers goes within a minute, 0.01 to 1; one worker always may. Defaults
	// to 0.25.
	Shrink float64
}

// Filled is the policy with its defaults. It fails where a field is out of its bounds.
func (p Policy) Filled() (Policy, error) {
	p.Slots, p.Most = or(p.Slots, 2), or(p.Most, 100)
	p.Clear, p.Boot = or(p.Clear, 3*time.Minute), or(p.Boot, time.Minute)
	p.Service, p.Hold = or(p.Service, 5*time.Second), or(p.Hold, 5*time.Minute)
	p.Spare, p.Shrink = or(p.Spare, 1.5), or(p.Shrink, 0.25)
	switch {
	case p.Slots < 1 || p.Slots > 1000:
		return p, fmt.Errorf("slots is %d: want 1 to 1000", p.Slots)
	case p.Sessions < 0 || p.Sessions > 1000:
		return p, fmt.Errorf("sessions is %d: want 0 to 1000", p.Sessions)
	case p.Most < 1 || p.Most > 10_000:
		return p, fmt.Errorf("max is %d: want 1 to 10000", p.Most)
	case p.Least < 0 || p.Least > p.Most:
		return p, fmt.Errorf("min is %d: want 0 to max, which is %d", p.Least, p.Most)
	case p.Boot < time.Second || p.Boot > time.Hour:
		return p, fmt.Errorf("boot is %s: want 1s to 1h", p.Boot)
	case p.Clear <= p.Boot || p.Clear > 24*time.Hour:
		return p, fmt.Errorf("clear is %s: want more than boot, which is %s, and 24h at most", p.Clear, p.Boot)
	case p.Service < time.Millisecond || p.Service > time.Hour:
		return p, fmt.Errorf("service is %s: want 1ms to 1h", p.Service)
	case p.Hold < time.Minute || p.Hold > 24*time.Hour:
		return p, fmt.Errorf("hold is %s: want 1m to 24h", p.Hold)
	case !(p.Spare >= 0 && p.Spare <= 10):
		return p, fmt.Errorf("spare is %v: want 0 to 10", p.Spare)
	case !(p.Shrink >= 0.01 && p.Shrink <= 1):
		return p, fmt.Errorf("shrink is %v: want 0.01 to 1", p.Shrink)
	}
	return p, nil
}

func or[T int | float64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}
