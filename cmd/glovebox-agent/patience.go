package main

import "time"

// leastLooks is how often it is looked, at least, before something is given up.
const leastLooks = 50

// patience is for how long it is looked whether something has happened. A machine that stood still for that long has given
// it no time: so it is looked so many times, too.
type patience struct {
	until time.Time
	looks int
}

func patientFor(d time.Duration) *patience { return &patience{until: time.Now().Add(d)} }

// isOver is called with each look, and reports whether it was the last one.
func (p *patience) isOver() bool {
	p.looks++
	return p.looks > leastLooks && time.Now().After(p.until)
}
