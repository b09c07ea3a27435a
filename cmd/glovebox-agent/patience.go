package main

import "time"

// leastLooks is how many times a loop looks, at least, before it gives up.
const leastLooks = 50

// patience bounds a loop that waits for something. A machine that stands still gives it no time, so a look uses up no more
// than its part.
type patience struct {
	left time.Duration
	most time.Duration // that a look uses up
	last time.Time
}

func patientFor(d time.Duration) *patience {
	return &patience{left: d, most: d / leastLooks, last: time.Now()}
}

// isOver counts a look, and reports whether to give up.
func (p *patience) isOver() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), p.most)
	p.last = now
	return p.left <= 0
}
