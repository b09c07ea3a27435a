package session

import (
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// Prepare asks the agent to preload a program, and closes the stream on one that does not read
// that in time.
func (s *Session) Prepare(request agentwire.Prepare, timeout time.Duration) error {
	return s.expectPrepared(timeout, func() error { return s.out.WriteJSON(agentwire.TypePrepare, request) })
}

// Resume makes the session that of a sandbox that goes on from a snapshot, in which a program is
// preloaded: the agent says again that it is ready, and what it has prepared. The stream is closed
// on an agent that doesn't read that in time.
func (s *Session) Resume(timeout time.Duration) error {
	return s.expectPrepared(timeout, func() error { return s.out.Write(agentwire.TypeResume, nil) })
}

// expectPrepared sends what the agent answers with what it has prepared.
func (s *Session) expectPrepared(timeout time.Duration, send func() error) error {
	s.mu.Lock()
	s.check.Prepare = true
	s.mu.Unlock()
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	return send()
}

// Prepared gets what the agent says of the preloaded program, once.
func (s *Session) Prepared() <-chan agentwire.Prepared { return s.prepared }
