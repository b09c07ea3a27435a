package deliverer

import (
	"strings"
	"time"
	"unicode"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

const (
	// calmFailures is after how many failures in a row an endpoint is not given a pause yet: a
	// message or two that it can't take say nothing of the others.
	calmFailures = 2
	// maxPause is how often an endpoint that fails is tried, at least: so what waits for it is
	// delivered soon after it is back.
	maxPause = 10 * time.Minute
	// leastPatience is how long a delivery waits for its endpoint at least, besides what the schedule takes.
	leastPatience = time.Hour
	// maxShown is how much of an answer is kept, in bytes.
	maxShown = 256
)

// PaceOf is how fast deliveries to one endpoint are made by that schedule: the pauses are its delays.
func PaceOf(s webhook.Schedule, perEndpoint int) record.Pace {
	p := record.Pace{Most: perEndpoint, Pauses: make([]time.Duration, calmFailures), Patience: leastPatience}
	delays := s.Delays
	if delays == nil {
		delays = webhook.DefaultSchedule().Delays
	}
	for i, delay := range delays {
		p.Patience += delay + time.Duration(s.Jitter*float64(delay))
		if i > 0 {
			p.Pauses = append(p.Pauses, min(delay, maxPause))
		}
	}
	return p
}

// shown is the beginning of an answer, fit to be shown.
func shown(body string) string {
	body = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, body)
	return job.Clip(strings.TrimSpace(body), maxShown-len("…"))
}
