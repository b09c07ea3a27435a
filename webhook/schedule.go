package webhook

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// maxRetryAfter bounds how long a receiver can put us off.
const maxRetryAfter = 24 * time.Hour

// Schedule says when a message is tried.
type Schedule struct {
	// Delays before each attempt, the first one included; their number is the number
	// of attempts. Defaults to those of the Standard Webhooks specification: 0, 5 s,
	// 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
	Delays []time.Duration
	// Jitter is how much of a delay is added to it at most, at random, so that
	// messages which failed together don't come back together. Defaults to 0, none.
	Jitter float64
	// Random returns numbers from 0 up to 1. Defaults to math/rand/v2's.
	Random func() float64
}

// DefaultSchedule is the specification's, with a jitter of a fifth.
func DefaultSchedule() Schedule { return Schedule{Delays: standardDelays(), Jitter: 0.2} }

func standardDelays() []time.Duration {
	return []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// ParseSchedule reads delays as in "0s,5s,5m,30m", for an operator's configuration.
func ParseSchedule(text string, jitter float64) (Schedule, error) {
	s := Schedule{Jitter: jitter}
	if !(jitter >= 0 && jitter <= 1) { // written so that NaN fails
		return Schedule{}, fmt.Errorf("read webhook schedule: jitter %v is not 0 to 1", jitter)
	}
	for _, field := range strings.Split(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(field))
		if err == nil && d < 0 {
			err = errors.New("it is negative")
		}
		if err != nil {
			return Schedule{}, fmt.Errorf("read webhook schedule: delay %q: %w", field, err)
		}
		s.Delays = append(s.Delays, d)
	}
	return s, nil
}

// Next returns how long to wait after so many attempts, and false when there were
// enough. Next(0) is the delay of the first.
func (s Schedule) Next(attempts int) (time.Duration, bool) {
	delays := s.Delays
	if delays == nil {
		delays = standardDelays()
	}
	if attempts < 0 || attempts >= len(delays) {
		return 0, false
	}
	random := s.Random
	if random == nil {
		random = rand.Float64
	}
	d := delays[attempts]
	return d + time.Duration(s.Jitter*random()*float64(d)), true
}

// NextAfter is Next, but not before the receiver's Retry-After, up to a day.
func (s Schedule) NextAfter(attempts int, retryAfter time.Duration) (time.Duration, bool) {
	d, ok := s.Next(attempts)
	if !ok {
		return 0, false
	}
	return max(d, min(retryAfter, maxRetryAfter)), true
}
