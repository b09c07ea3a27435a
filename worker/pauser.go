package worker

import (
	"slices"
	"sync"
	"time"
)

const (
	// leastIdle is how long a session has executed nothing before another may have its memory: to be written to the disk and read again costs
	// about half a second.
	leastIdle = 5 * time.Second
	// maxPausing is how many sessions are written to the disk at once.
	maxPausing = 2
	// pauseAgain is how long after a session could not be paused that is tried once more. It doubles each time, up to maxPauseAgain: the disk may have room again.
	pauseAgain    = time.Minute
	maxPauseAgain = 8 * time.Minute
)

// pauser chooses which of the sessions that execute nothing are paused: those that have been idle for long enough, and while memory is missing
// those that have been idle for longest. Safe for concurrent use.
type pauser struct {
	after   time.Duration // 0: none is paused
	missing func() int64  // memory that others wait for, MiB

	mu      sync.Mutex
	idle    []*idleSpell // that may be paused, the longest one first
	pausing int
	freeing int64 // what those hold that are being paused, MiB
	resting int64 // what those hold that execute nothing, MiB
}

// idleSpell is the time in which a session executes nothing.
type idleSpell struct {
	// chosen is closed where the session is to be paused.
	chosen chan struct{}

	pauser  *pauser
	since   time.Time
	mb      int64 // what it holds
	due     bool  // it is paused whether memory is missing or not
	pausing bool
	over    bool
	timers  []*time.Timer
}

// begin begins the spell of a session that holds so many MiB, and that is not paused before then. The caller ends it.
func (p *pauser) begin(mb int64, notBefore time.Time) *idleSpell {
	if p.after == 0 {
		return nil
	}
	s := &idleSpell{pauser: p, since: time.Now(), mb: mb, chosen: make(chan struct{})}
	wait := max(time.Until(notBefore), 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting += mb
	s.timers = []*time.Timer{
		time.AfterFunc(max(min(leastIdle, p.after), wait), func() { p.offer(s, false) }),
		time.AfterFunc(max(p.after, wait), func() { p.offer(s, true) }),
	}
	return s
}

// offer says that the session may be paused, or is to be.
func (p *pauser) offer(s *idleSpell, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.over || s.pausing {
		return
	}
	s.due = s.due || due
	if !slices.Contains(p.idle, s) {
		i, _ := slices.BinarySearchFunc(p.idle, s, func(a, b *idleSpell) int { return a.since.Compare(b.since) })
		p.idle = slices.Insert(p.idle, i, s)
	}
	p.chooseMore()
}

// memoryShort chooses sessions where memory is missing.
func (p *pauser) memoryShort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chooseMore()
}

func (p *pauser) chooseMore() {
	for p.pausing < maxPausing {
		short := len(p.idle) > 0 && p.missing() > p.freeing
		i := slices.IndexFunc(p.idle, func(s *idleSpell) bool { return short || s.due })
		if i < 0 {
			return
		}
		s := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.pausing++
		p.freeing += s.mb
		s.pausing = true
		close(s.chosen)
	}
}

// idleMB is what sessions hold that execute nothing, and may be paused: 0 where none is.
func (p *pauser) idleMB() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resting
}

// end ends the spell: the session executes something, has ended, or is paused and has given its memory back.
func (s *idleSpell) end() {
	if s == nil {
		return
	}
	p := s.pauser
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	p.resting -= s.mb
	for _, t := range s.timers {
		t.Stop()
	}
	if i := slices.Index(p.idle, s); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	if s.pausing {
		p.pausing--
		p.freeing -= s.mb
	}
	p.chooseMore()
}
