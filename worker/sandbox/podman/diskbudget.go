package podman

import (
	"errors"
	"sync"
)

// errNoDisk is why a session stays in memory.
var errNoDisk = errors.New("paused sessions have all of the disk that they may have")

// diskBudget is what files may take of a disk together. Safe for concurrent use.
type diskBudget struct {
	mu   sync.Mutex
	left int64
}

// take takes so many bytes, if they are left.
func (d *diskBudget) take(n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left < n {
		return false
	}
	d.left -= n
	return true
}

func (d *diskBudget) give(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left += n
}
