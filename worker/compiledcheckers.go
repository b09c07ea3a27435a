package worker

import (
	"container/list"
	"sync"
)

const (
	// maxCompiled bounds what the compile step of one checker made, maxCompiledBytes what is kept of all, bytes.
	maxCompiled      = 8 << 20
	maxCompiledBytes = 64 << 20
	// compiledCost is what an entry takes beside what it keeps, bytes.
	compiledCost = 1 << 10
)

// compiledCheckers keeps what compile steps of checkers made, as tar archives that nobody has looked into, so that a problem's
// checker isn't compiled for each submission. A checker that comes once costs nothing more: its archive is made when it comes again.
type compiledCheckers struct {
	mu      sync.Mutex
	entries map[compiledKey]*list.Element // of recent
	recent  list.List                     // of *compiledChecker, the one that was used last in front
	bytes   int
}

// compiledKey is the SHA-256 of all that a compile step is given.
type compiledKey [32]byte

type compiledChecker struct {
	key   compiledKey
	state compiledState
	tries int // how many archives failed
	tar   []byte
}

type compiledState int

const (
	isAwaited compiledState = iota // the next job that asks makes the archive
	isMade                         // a job that runs makes the archive
	isKept
	isNotKept // an archive would be of no use
)

// maxTries is how many archives are made in vain: of a checker whose own limits leave no room for one, and of one that was unlucky.
const maxTries = 3

// get returns what is kept of key, or nil. wanted says that the caller, who may make it, is to do so, and to call put, giveUp or failed.
func (c *compiledCheckers) get(key compiledKey, may bool) (tar []byte, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(key)
	if e == nil {
		c.add(&compiledChecker{key: key})
		return nil, false
	}
	c.recent.MoveToFront(c.entries[key])
	if e.state == isAwaited && may {
		e.state = isMade
		return nil, true
	}
	return e.tar, false
}

// put keeps the archive that the caller has made.
func (c *compiledCheckers) put(key compiledKey, tar []byte) {
	c.set(compiledChecker{key: key, state: isKept, tar: tar})
}

// giveUp keeps that there is no use in one.
func (c *compiledCheckers) giveUp(key compiledKey) {
	c.set(compiledChecker{key: key, state: isNotKept})
}

// failed has another make it, unless that has failed too often. What is no fault of the archive's counts for nothing.
func (c *compiledCheckers) failed(key compiledKey, counts bool) {
	e := compiledChecker{key: key}
	if counts {
		e.tries = 1
	}
	c.set(e)
}

// unusable has the archive made once more that could not be unpacked.
func (c *compiledCheckers) unusable(key compiledKey, tar []byte) {
	c.mu.Lock()
	e := c.entry(key)
	other := e == nil || e.state != isKept || &e.tar[0] != &tar[0] // it was replaced meanwhile
	c.mu.Unlock()
	if !other {
		c.failed(key, true)
	}
}

// doubt has the archive made once more, as the checker failed: its compile step may have, without a word.
func (c *compiledCheckers) doubt(key compiledKey) {
	c.mu.Lock()
	e := c.entry(key)
	kept := e != nil && e.state == isKept
	c.mu.Unlock()
	if kept {
		c.failed(key, false)
	}
}

func (c *compiledCheckers) entry(key compiledKey) *compiledChecker {
	if at := c.entries[key]; at != nil {
		return at.Value.(*compiledChecker) //nolint:forcetypeassert // it has no others
	}
	return nil
}

// set carries over how often it has failed.
func (c *compiledCheckers) set(e compiledChecker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entry(e.key); old != nil {
		e.tries += old.tries
		c.remove(e.key)
	}
	if e.tries >= maxTries {
		e.state, e.tar = isNotKept, nil
	}
	c.add(&e)
}

func (c *compiledCheckers) add(e *compiledChecker) {
	if c.entries == nil {
		c.entries = map[compiledKey]*list.Element{}
	}
	c.entries[e.key] = c.recent.PushFront(e)
	for c.bytes += e.cost(); c.bytes > maxCompiledBytes; {
		c.remove(c.recent.Back().Value.(*compiledChecker).key) //nolint:forcetypeassert // it has no others
	}
}

func (c *compiledCheckers) remove(key compiledKey) {
	c.bytes -= c.entry(key).cost()
	c.recent.Remove(c.entries[key])
	delete(c.entries, key)
}

func (e *compiledChecker) cost() int { return len(e.tar) + compiledCost }
