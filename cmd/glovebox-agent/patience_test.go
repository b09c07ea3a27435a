package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a machine that stands still does not use it up, be it before the first look or later.
func TestPatience(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stalls func(look int) bool // for a minute, before that look
		looks  int                 // until it is over
	}{
		"quick looks":  {func(int) bool { return false }, 1000},
		"stalls":       {func(int) bool { return true }, leastLooks},
		"a late stall": {func(look int) bool { return look == 100 }, 981},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, looks := patientFor(time.Second), 0
				for over := false; !over; over = p.isOver() {
					if looks++; c.stalls(looks) {
						time.Sleep(time.Minute)
					} else {
						time.Sleep(time.Millisecond)
					}
				}
				if looks != c.looks {
					t.Errorf("it was over after %d looks, want %d", looks, c.looks)
				}
			})
		})
	}
}
