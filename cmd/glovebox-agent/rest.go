package main

import (
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

// stirred is why a turn is refused whose session did not rest before it.
const stirred = "glovebox: code of the session ran between two executions: its state is gone, and this code was not executed"

// nextTurn waits for a turn. Nothing of the session may run meanwhile: it would have a processor without limits that nobody counts. gVisor
// lets a stopped process go on when a timer or a file of its own sends it SIGCONT. If any has run, all are ended.
func (s *session) nextTurn(i *interpreter, start agentwire.Start) (t turn, ok bool, err error) {
	if i == nil || i.told == nil { // nothing of the session's was executed yet, or its end was seen
		t, ok = <-s.turns
		return t, ok, nil
	}
	wait := firstLook
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case t, ok = <-s.turns:
			if !i.stirred && !i.rests() {
				err = i.endStirred(start)
			}
			return t, ok, err
		case <-timer.C:
			if i.rests() && standsStill() {
				wait = min(2*wait, lastLook)
				timer.Reset(wait)
				continue
			}
			if err := i.endStirred(start); err != nil { // no further look, as the timer is not set again
				return t, false, err
			}
		}
	}
}

// rests reports whether the session has used next to no CPU time since its last turn. If that can't be told, it has.
func (i *interpreter) rests() bool {
	used, err := i.group.cpu()
	return err == nil && used <= i.cpu+restSlack
}

// endStirred ends all that runs of the session.
func (i *interpreter) endStirred(start agentwire.Start) error {
	i.stirred = true
	i.kill(start.Limits.MemoryMB << 20)
	i.finish(true)
	if used, err := i.group.cpu(); err == nil {
		i.stirredFor = used - i.cpu
	}
	return awaitFreed()
}
