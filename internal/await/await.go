// Package await waits for what a process needs and does not have at the moment: Redis,
// the bucket, Podman. It says so once, then rarely.
//
// Start at [Until].
package await

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// ErrSettings is wrapped by errors that no waiting mends: somebody has to change a setting.
var ErrSettings = errors.New("wrong settings")

const (
	// A try that failed is repeated after firstPause, twice as long each time, and after
	// lastPause at most.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Until calls try until it returns nil, an error that wraps ErrSettings, or ctx ends; of
// that it returns the cause. what names what it waits for.
func Until(ctx context.Context, log *slog.Logger, what string, try func(context.Context) error) error {
	began := time.Now()
	var said Rarely
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		// What hangs is waited for, too: it may go on.
		slow := time.AfterFunc(leastSilence, func() {
			log.Warn("waiting for "+what, "error", "no answer yet") //nolint:sloglint // one of a few
		})
		err := try(ctx)
		slow.Stop()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if said.Begun() {
				log.Info("going on: there is "+what+" now", //nolint:sloglint // one of a few
					"waited_seconds", int(time.Since(began).Seconds()))
			}
			return nil
		case errors.Is(err, ErrSettings):
			return err
		case said.Now():
			log.Warn("waiting for "+what, "error", err) //nolint:sloglint // one of a few
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Rarely says when to say again what has been said: after 10 s at first, then after ever
// longer, 10 minutes at most. Its zero value has said nothing yet.
type Rarely struct {
	pause time.Duration
	last  time.Time
}

const (
	leastSilence = 10 * time.Second
	mostSilence  = 10 * time.Minute
)

// Now reports whether to say it now, and takes it as said.
func (r *Rarely) Now() bool {
	if r.Begun() && time.Since(r.last) < r.pause {
		return false
	}
	r.last, r.pause = time.Now(), min(max(2*r.pause, leastSilence), mostSilence)
	return true
}

// Begun reports whether anything was said.
func (r *Rarely) Begun() bool { return r.pause > 0 }
