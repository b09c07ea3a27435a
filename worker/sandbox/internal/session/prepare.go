package session

import (
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// Prepare asks the agent to preload a program, and closes the stream on one that does not read
// that in time.
func (s *Session) Prepare(request agentwire.Prepare, timeout time.Duration) error {
	s.mu.Lock()
	s.check.Prepare = true
	s.mu.Unlock()
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	return s.out.WriteJSON(agentwire.TypePrepare, request)
}

// Prepared gets what the agent says of the preloaded program, once.
func (s *Session) Prepared() <-chan agentwire.Prepared { return s.prepared }
