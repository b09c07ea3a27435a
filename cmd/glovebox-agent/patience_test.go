package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: neither a machine that stood still nor many quick looks end it.
func TestPatience(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause time.Duration // before each look
		looks int           // until it is over
	}{
		"quick looks": {time.Millisecond, 1001},
		"a stall":     {time.Minute, leastLooks + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, looks := patientFor(time.Second), 1
				for time.Sleep(c.pause); !p.isOver(); time.Sleep(c.pause) {
					looks++
				}
				if looks != c.looks {
					t.Errorf("it was over after %d looks, want %d", looks, c.looks)
				}
			})
		})
	}
}
