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
// checker isn't compiled for each submission. One that is seen once is not made twice for it: its archive is made when it comes again.
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
	isAwaited compiledState = iota // the next who asks is to make the archive
	isMade                         // by a job that runs
	isKept
	isNotKept // there is no use in an archive
)

// maxTries is how many archives are made in vain: of a checker whose own limits leave no room for one, and of one that was unlucky.
const maxTries = 3

// get returns what is kept of key, or nil. wanted says that the caller is to make it, and to call put, giveUp or failed.
func (c *compiledCheckers) get(key compiledKey) (tar []byte, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	if at == nil {
		c.add(&compiledChecker{key: key})
		return nil, false
	}
	c.recent.MoveToFront(at)
	e := at.Value.(*compiledChecker) //nolint:forcetypeassert // it has no others
	if e.state == isAwaited {
		e.state = isMade
		return nil, true
	}
	return e.tar, false
}

// put keeps the archive.
func (c *compiledCheckers) put(key compiledKey, tar []byte) {
	c.set(compiledChecker{key: key, state: isKept, tar: tar})
}

// giveUp keeps that there is no use in an archive.
func (c *compiledCheckers) giveUp(key compiledKey) {
	c.set(compiledChecker{key: key, state: isNotKept})
}

// failed has the archive made once more, unless it has failed too often. Nobody is at fault where the job was over.
func (c *compiledCheckers) failed(key compiledKey, over bool) {
	e := compiledChecker{key: key}
	if !over {
		e.tries = 1
	}
	c.set(e)
}

func (c *compiledCheckers) set(e compiledChecker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.remove(e.key); old != nil {
		e.tries += old.tries
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

func (c *compiledCheckers) remove(key compiledKey) *compiledChecker {
	at := c.entries[key]
	if at == nil {
		return nil
	}
	e := c.recent.Remove(at).(*compiledChecker) //nolint:forcetypeassert // it has no others
	delete(c.entries, key)
	c.bytes -= e.cost()
	return e
}

func (e *compiledChecker) cost() int { return len(e.tar) + compiledCost }
