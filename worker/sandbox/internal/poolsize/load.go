package poolsize

import "math"

// load is what the refiller has to do.
type load struct {
	offered float64 // the share of the time in which it is busy
	share   float64 // the same, bounded
	theta   float64 // how fast what is missing falls off
	weight  float64 // sum of the kinds' weights
}

// weight is a kind's part in what is missing: it counts for more if its programs come in bursts.
func (k Kind) weight() float64 { return k.Rate * k.dispersion() }

func (k Kind) dispersion() float64 { return max(k.Dispersion, 1) }

// load is that of programs which come times as often.
func (r Rule) load(kinds []Kind, times float64) load {
	var l load
	rate := 0.0
	for _, k := range kinds {
		rate += k.Rate
		l.weight += k.weight()
	}
	l.offered = times * rate * r.Refill.Seconds()
	l.share = min(l.offered, mostLoad)
	if l.share > 0 && rate > 0 {
		l.theta = 2 * (1 - l.share) / (l.share * (l.weight/rate + r.Variation))
	}
	return l
}

// missed is which share of the kind's programs finds none waiting if n are to wait. Each more makes less of a
// difference than the one before.
func (l load) missed(k Kind, n int) float64 {
	switch {
	case n <= 0 || k.Rate <= 0:
		return 1
	case l.share == 0:
		return 0
	}
	p := k.weight() / l.weight
	r := 1 / (1 + l.theta)
	lacks := l.share * p / (1 - r*(1-p)) * math.Pow(1+l.theta/p, float64(1-n))
	// One of a burst comes after others of it: half of the others, on average.
	d := k.dispersion()
	lacks = max(lacks, math.Pow((d-1)/(d+1), float64(n)))
	// A program that misses takes none of those that wait, so nothing is missing more for it.
	return (1 - l.share) * lacks / (1 - l.share*lacks)
}

// gain is how many programs a second less miss if n+1 of the kind wait, and not n.
func (l load) gain(k Kind, n int) float64 { return k.Rate * (l.missed(k, n) - l.missed(k, n+1)) }

// enough is how many are to wait of a kind so that but few programs miss, and each is of use now and then.
func (l load) enough(k Kind) int {
	for n, missed := 0, 1.0; ; n++ {
		next := l.missed(k, n+1)
		if n == mostOfKind || missed <= mostMissed || k.Rate*(missed-next) < leastGain {
			return n
		}
		missed = next
	}
}

// mostOfKind is more than a worker's memory ever holds of one kind.
const mostOfKind = 1000
