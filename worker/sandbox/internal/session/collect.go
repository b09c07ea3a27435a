package session

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// collectTimeout is how long an agent may keep the worker waiting while it collects, in
	// all, beside the time that the files that it may send take at collectRate.
	collectTimeout = time.Minute
	collectRate    = 10 // MiB a second
)

// collect passes the artifacts on, and ends the session.
func (s *Session) collect(ctx context.Context) error {
	for {
		e, err := s.next(ctx)
		if err != nil {
			return fmt.Errorf("wait for artifacts: %w", err)
		}
		switch message := e.message.(type) {
		case agentwire.ArtifactBegin:
			err = s.artifact(ctx, message)
		case agentwire.Skipped:
			s.Outcome.Skipped = append(s.Outcome.Skipped, job.Skipped{Name: message.Name, Reason: message.Reason})
		case agentwire.End:
			s.end(e, message)
			return nil
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return err
		}
	}
}

// collectTime is how long an agent may take over all files that there can be.
func (s *Session) collectTime() time.Duration {
	return collectTimeout + time.Duration(s.task.Program.Limits.DiskMB)*time.Second/collectRate
}

// next waits for the next event of the collection.
func (s *Session) next(ctx context.Context) (event, error) {
	from := time.Now()
	e, err := s.events.pop(ctx, s.collectTime()-s.collectWait)
	s.collectWait += time.Since(from)
	return e, err
}

// awaitEnd waits for End where nothing may come before it.
func (s *Session) awaitEnd(ctx context.Context) error {
	e, err := s.next(ctx)
	if err != nil {
		return fmt.Errorf("wait for the agent's end: %w", err)
	}
	end, ok := e.message.(agentwire.End)
	if !ok {
		return s.unexpected(e)
	}
	s.end(e, end)
	return nil
}

func (s *Session) end(e event, end agentwire.End) {
	s.Outcome.SkippedTotal = end.SkippedTotal
	s.Outcome.Timing.Ended = e.at.Sub(s.began)
}
