package poolsize

import "time"

const (
	// firstRefill is how long a refill is taken to last until one was seen.
	firstRefill = 250 * time.Millisecond
	// refillWeight is how much the last refill counts beside all before.
	refillWeight = 0.05
	// mostVariation bounds the squared coefficient of variation: one start that hung for a minute is not
	// to count for hours.
	mostVariation = 4
)

// Refills is what is known of how long refills take. The zero value knows of none. Not safe for concurrent use.
type Refills struct{ mean, square float64 } // seconds, and their squares

// Note notes that a refill took so long.
func (r *Refills) Note(took time.Duration) {
	s := took.Seconds()
	if r.mean == 0 {
		r.mean, r.square = s, s*s
		return
	}
	r.mean += refillWeight * (s - r.mean)
	r.square += refillWeight * (s*s - r.square)
}

// Mean is how long a refill takes.
func (r *Refills) Mean() time.Duration {
	if r.mean == 0 {
		return firstRefill
	}
	return time.Duration(r.mean * float64(time.Second))
}

// Variation is the squared coefficient of variation of that time, 0 where all take as long.
func (r *Refills) Variation() float64 {
	if r.mean == 0 {
		return 0
	}
	return min(max(r.square/(r.mean*r.mean)-1, 0), mostVariation)
}
