package kattis

import (
	"fmt"
	"math"
	"time"
)

// Timing says how a time limit follows from how long submissions took.
type Timing struct {
	ToLimit    float64 // of the slowest accepted submission
	ToTLE      float64 // of the limit: what the fastest submission that is to be too slow takes, at least
	Resolution float64 // seconds: the limit is a multiple of it
}

func timingOf(version string) Timing {
	if version == V2025 || version == Draft2023 {
		return Timing{ToLimit: 2, ToTLE: 1.5, Resolution: 1}
	}
	return Timing{ToLimit: 5, ToTLE: 2, Resolution: 1}
}

// Limit derives a time limit: the smallest multiple of the resolution that is enough for the slowest
// accepted submission, slowest being its slowest test.
func (t Timing) Limit(slowest time.Duration) time.Duration {
	steps := math.Ceil(slowest.Seconds()*t.ToLimit/t.Resolution - 1e-9)
	return inSeconds(max(1, steps) * t.Resolution)
}

// CheckTLE returns an error where fastest, the time of the fastest submission that is to be too slow, is
// not far enough above the limit.
func (t Timing) CheckTLE(limit, fastest time.Duration) error {
	if want := limit.Seconds() * t.ToTLE; fastest.Seconds() < want {
		return fmt.Errorf("the time limit is %s; a submission that is to be too slow takes %s, and has to take %.3g s (%g times the limit)",
			limit, fastest.Round(time.Millisecond), want, t.ToTLE)
	}
	return nil
}
