package pipelines

import (
	"crypto/sha256"
	"sync"

	"github.com/glovebox-run/glovebox/job"
)

// mostCached is how many definitions a [Cache] keeps.
const mostCached = 64

// Cache keeps definitions that were parsed: a run is looked at whenever a job of it ends. Its zero value is ready, and safe for
// concurrent use.
type Cache struct {
	mu     sync.Mutex
	parsed map[[sha256.Size]byte]*Definition
}

// Parse is [Parse] of the pipeline that text holds as JSON.
func (c *Cache) Parse(text []byte, p job.Pipeline) (*Definition, error) {
	key := sha256.Sum256(text)
	c.mu.Lock()
	d := c.parsed[key]
	c.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, err := Parse(p)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= mostCached {
		c.parsed = map[[sha256.Size]byte]*Definition{}
	}
	c.parsed[key] = d
	return d, nil
}
