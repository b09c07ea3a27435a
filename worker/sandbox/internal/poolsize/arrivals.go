package poolsize

import (
	"math"
	"time"
)

// How fast what was seen is forgotten, by halves. Of the two rates the larger counts: the quick one follows a
// rise, the slow one keeps a lull from looking like the end.
const (
	quickHalf = 15 * time.Second
	slowHalf  = 2 * time.Minute
	// window is how long arrivals are counted together, to see by how much the counts vary, and windowHalf
	// how fast these are forgotten.
	window     = 5 * time.Second
	windowHalf = 5 * time.Minute
	// youngest is how old the knowledge of a kind is taken to be at least: one program is no rate yet.
	youngest = 10 * time.Second
	// silence is after how long all starts anew.
	silence = 15 * time.Minute
	// mostDispersion bounds how bursty programs are taken to come. Less than leastDispersion looks like chance,
	// and so does what fewer than enoughWindows say.
	leastDispersion, mostDispersion = 1.5, 100
	enoughWindows                   = 6
)

// Arrivals is what is known of when programs of one kind came. The zero value knows of none. Not safe for
// concurrent use; times are not to go back.
type Arrivals struct {
	began, at   time.Time
	quick, slow float64 // programs, each forgotten by halves
	opened      time.Time
	count       float64 // in the window that is open
	// Of the windows that are over: how many, and the sums of their counts and of the squares of these.
	windows, sum, squares float64
}

// Note notes that a program came.
func (a *Arrivals) Note(now time.Time) {
	if a.at.IsZero() || now.Sub(a.at) > silence {
		*a = Arrivals{began: now, at: now, opened: now}
	}
	a.advance(now)
	a.quick++
	a.slow++
	a.count++
}

// advance forgets what is long ago, and closes the windows that are over.
func (a *Arrivals) advance(now time.Time) {
	since := now.Sub(a.at)
	a.quick *= kept(since, quickHalf)
	a.slow *= kept(since, slowHalf)
	a.at = now
	over := math.Floor(now.Sub(a.opened).Seconds() / window.Seconds())
	if over < 1 {
		return
	}
	// One with what was counted, then such with nothing.
	each := kept(window, windowHalf)
	after := math.Pow(each, over)
	before := after / each
	a.windows = a.windows*after + (1-after)/(1-each)
	a.sum = a.sum*after + a.count*before
	a.squares = a.squares*after + a.count*a.count*before
	a.count = 0
	a.opened = a.opened.Add(time.Duration(over) * window)
}

// Rate is how many programs come in a second.
func (a *Arrivals) Rate(now time.Time) float64 {
	if a.at.IsZero() || now.Sub(a.at) > silence {
		return 0
	}
	since, age := now.Sub(a.at), max(now.Sub(a.began), youngest)
	rate := func(seen float64, half time.Duration) float64 {
		return seen * kept(since, half) * math.Ln2 / half.Seconds() / (1 - kept(age, half))
	}
	return max(rate(a.quick, quickHalf), rate(a.slow, slowHalf))
}

// Dispersion is the variance of how many programs come in a window, divided by the mean: 1 where they come at
// random, more where they come in bursts. It is never less, as a few windows may look alike by chance.
func (a *Arrivals) Dispersion(now time.Time) float64 {
	b := *a
	if !b.at.IsZero() {
		b.advance(now)
	}
	if b.windows < enoughWindows || b.sum <= 0 {
		return 1
	}
	mean := b.sum / b.windows
	if d := (b.squares/b.windows - mean*mean) / mean; d >= leastDispersion {
		return min(d, mostDispersion)
	}
	return 1
}

// kept is what is left of 1 after that time, if a half is after half.
func kept(after, half time.Duration) float64 {
	return math.Exp2(-max(after, 0).Seconds() / half.Seconds())
}
