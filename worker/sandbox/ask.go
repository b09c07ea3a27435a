package sandbox

import "time"

// Ask is how many sandboxes of an image an operator wants to wait on this worker.
type Ask struct {
	Image string
	Count int
	// Since is when that was asked: who asked first is served first. Until is when it ends.
	Since, Until time.Time
}
