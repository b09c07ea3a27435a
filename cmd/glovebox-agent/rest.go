package main

import (
	"maps"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// A session that waits for a turn is looked at after firstLook, and after twice as long each time, up to lastLook: twenty that were looked at every
// second took 1 % of a processor for it.
const (
	firstLook = time.Second
	lastLook  = 16 * time.Second
)

// restSlack is CPU time that is nobody's doing: gVisor counts in ticks of 10 ms, and what ended with a turn may get its last one after it.
const restSlack = 50 * time.Millisecond

// restorePatience is how long what was restored may take to stand still again.
const restorePatience = time.Second

// stirred is why a turn is refused whose session did not rest before it.
const stirred = "glovebox: code of the session ran between two executions: its state is gone, and this code was not executed"

// nextTurn waits for a turn. Nothing of the session may run meanwhile: it would have a processor without limits that nobody counts. gVisor
// lets a stopped process go on when a timer or a file of its own sends it SIGCONT. If any has run, all are ended.
func (s *session) nextTurn(c *contexts) (t turn, ok bool, err error) {
	wait := firstLook
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case t, ok = <-s.turns:
			return t, ok, c.lookOnce()
		case what := <-s.pauses:
			if err := s.answerPause(c, what); err != nil {
				return t, false, err
			}
			timer.Stop() // it is nobody's time until the session goes on
			if what == agentwire.TypeResume {
				wait = firstLook
				timer.Reset(wait)
			}
		case <-timer.C:
			if !c.canStir() {
				continue // and no further look
			}
			if c.rest() && standsStill() {
				wait = min(2*wait, lastLook)
				timer.Reset(wait)
				continue
			}
			if err := c.endStirred(); err != nil {
				return t, false, err
			}
		}
	}
}

// answerPause tells the worker that all that was sent before is read. A session that was paused, or should have been, has used no CPU time of its own since.
func (s *session) answerPause(c *contexts, what agentwire.Type) error {
	look := c.lookOnce
	if what == agentwire.TypeResume {
		look = c.lookAfterPause
	}
	if err := look(); err != nil {
		return err
	}
	return s.sayReady()
}

// lookAfterPause holds no CPU time of a pause against the session, unless any of it runs on: a timer that was due during the pause sends its SIGCONT at its end.
func (c *contexts) lookAfterPause() error {
	for patience := patientFor(restorePatience); c.canStir() && !standsStill(); time.Sleep(time.Millisecond) {
		if patience.isOver() {
			return c.endStirred()
		}
	}
	used, err := c.group.cpu()
	if err != nil {
		return err
	}
	c.cpu = used
	return nil
}

// canStir reports whether anything of the session is there that could run: something was executed, and its end wasn't seen.
func (c *contexts) canStir() bool { return len(c.all) > 0 && c.began && !c.stirred }

// lookOnce ends all that runs of the session if any has.
func (c *contexts) lookOnce() error {
	if !c.canStir() || c.rest() {
		return nil
	}
	return c.endStirred()
}

// rest reports whether the session has used next to no CPU time since its last turn. If that can't be told, it has.
func (c *contexts) rest() bool {
	used, err := c.group.cpu()
	return err == nil && used <= c.cpu+restSlack
}

// endStirred ends all that runs of the session.
func (c *contexts) endStirred() error {
	c.stirred = true
	present := maps.Clone(c.all)
	c.endAll()
	c.finish(present)
	c.freed()
	if used, err := c.group.cpu(); err == nil {
		c.stirredFor, c.cpu = used-c.cpu, used
	}
	return awaitFreed()
}
