package worker

import (
	"container/list"
	"sync"
)

const (
	// maxCompiled and maxCompiledBytes bound what the compile step of one checker made, and of all that are kept. The Go command, in Go, has 2 MB.
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
	tar   []byte
}

type compiledState int

const (
	seenOnce  compiledState = iota // or its archive could not be made, through no fault of its own
	isMade                         // by a job that runs
	isKept                         //
	isNotKept                      // as there is no use in it
)

// get returns what is kept of key, or nil. wanted says that the caller is to make it, and to call put or forget.
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
	if e.state == seenOnce {
		e.state = isMade
		return nil, true
	}
	return e.tar, false
}

// put keeps the archive, or, if that is nil or too long, that there is no use in one.
func (c *compiledCheckers) put(key compiledKey, tar []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if tar == nil || len(tar) > maxCompiled {
		c.add(&compiledChecker{key: key, state: isNotKept})
		return
	}
	c.add(&compiledChecker{key: key, state: isKept, tar: tar})
}

// forget has the archive made by the next who asks.
func (c *compiledCheckers) forget(key compiledKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	c.add(&compiledChecker{key: key})
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
	at := c.entries[key]
	if at == nil {
		return
	}
	e := c.recent.Remove(at).(*compiledChecker) //nolint:forcetypeassert // it has no others
	delete(c.entries, key)
	c.bytes -= e.cost()
}

func (e *compiledChecker) cost() int { return len(e.tar) + compiledCost }
