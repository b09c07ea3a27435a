package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// clock is for how long a session lives, as far as its worker knows: its record says more, so that is read before the session ends.
type clock struct {
	mu      sync.Mutex
	expires time.Time
	idle    time.Duration // for how long it may execute nothing
	slack   time.Duration
	end     *time.Timer // ends the sandbox; nil before
}

func newClock(x record.Session) clock {
	return clock{expires: x.Expires, idle: time.Duration(x.Settings.IdleSeconds) * time.Second}
}

// endAfter calls end so long after the session's time is over, until stop is called.
func (c *clock) endAfter(slack time.Duration, end func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slack, c.end = slack, time.AfterFunc(time.Until(c.expires.Add(slack)), end)
	return func() { c.end.Stop() }
}

// set takes what the record says.
func (c *clock) set(t record.SessionTime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires, c.idle = t.Expires, t.Idle
	if c.end != nil {
		c.end.Reset(time.Until(c.expires.Add(c.slack)))
	}
}

// left is how long the session lives still, as far as is known.
func (c *clock) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.expires)
}

func (c *clock) expired() bool { return c.left() <= 0 }

// due is in what time to look whether the session has to end, that has executed nothing since then: soon again where it could not be read.
func (c *clock) due(idleSince time.Time) time.Duration {
	c.mu.Lock()
	idle := time.Until(idleSince.Add(c.idle))
	c.mu.Unlock()
	return soon(min(c.left(), idle))
}

// soon is d, or where that is over when to ask again.
func soon(d time.Duration) time.Duration {
	if d <= 0 {
		return askAgain
	}
	return d
}

// readClock reads for how long the session lives that has executed nothing for so long, and returns why it ends, if it does, and a context's generation: -1 where that is not known. Where its record can't be read, what is known holds, for
// so long that a change that nobody was told of would have been seen.
func (h *heldSession) readClock(ctx context.Context, of string, idleFor time.Duration, warn *await.Rarely) (generation int, end *job.SessionEnd) {
	now, err := h.worker.Records.SessionTime(ctx, h.record.ID, h.worker.ID, of, idleFor)
	generation = -1
	switch {
	case errors.Is(err, job.ErrSessionEnded), errors.Is(err, job.ErrNoSession): // the next look for an execution says so, too
	case err != nil && h.clock.left() < -lookInterval:
		now.Over = job.EndTTL
	case err != nil:
		if ctx.Err() == nil && warn.Now() {
			h.log.Warn("for how long the session lives could not be read, trying again", "error", err)
		}
	case now.Over == "":
		h.clock.set(now)
		generation = now.Generation
	default:
		h.clock.set(record.SessionTime{Expires: time.Now()}) // nothing begins any more
	}
	switch now.Over {
	case job.EndTTL:
		return generation, &job.SessionEnd{Reason: job.EndTTL, Message: "its ttl_seconds are over"}
	case job.EndBudget: // the next look for an execution says so, too
	case job.EndIdle:
		return generation, &job.SessionEnd{Reason: job.EndIdle, Message: "it has executed nothing for its idle_seconds"}
	}
	return generation, nil
}

// watchClock interrupts an execution at the end of its session's time, and restarts its context where that is to have another interpreter, until stop is called.
func (h *heldSession) watchClock(in sandbox.Context, interrupt, restart func()) (stop func()) {
	ctx, cancel := context.WithCancel(h.life)
	var watching sync.WaitGroup
	watching.Go(func() {
		over, look := time.NewTimer(h.clock.left()), time.NewTimer(lookInterval)
		defer over.Stop()
		defer look.Stop()
		var warn await.Rarely
		for {
			select {
			case <-ctx.Done():
				return
			case <-h.wake: // the next execution is looked for without it
			case <-look.C:
			case <-over.C:
			}
			generation, end := h.readClock(ctx, in.Name, 0, &warn)
			if end != nil {
				interrupt()
				return
			}
			if generation >= 0 && generation != in.Generation {
				restart()
			}
			look.Reset(lookInterval)
			over.Reset(soon(h.clock.left()))
		}
	})
	return func() { cancel(); watching.Wait() }
}
