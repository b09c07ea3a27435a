package podman

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// collectPatience is for how long an agent may keep the worker waiting while it
	// collects, in all, beside what the files that it may send take at collectRate.
	collectPatience = time.Minute
	collectRate     = 10 // MiB a second
)

// collect passes the artifacts on, and ends the session.
func (s *session) collect(ctx context.Context) error {
	for {
		e, err := s.collected(ctx)
		if err != nil {
			return fmt.Errorf("wait for artifacts: %w", err)
		}
		switch e.Type {
		case agentwire.TypeArtifactBegin:
			err = s.artifact(ctx, e.say.(agentwire.ArtifactBegin))
		case agentwire.TypeSkipped:
			skipped := e.say.(agentwire.Skipped)
			s.outcome.Skipped = append(s.outcome.Skipped, job.Skipped{Name: skipped.Name, Reason: skipped.Reason})
		case agentwire.TypeEnd:
			return s.ended(e)
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return err
		}
	}
}

// collected waits for the next event of the collection.
func (s *session) collected(ctx context.Context) (event, error) {
	patience := collectPatience + time.Duration(s.program.Limits.DiskMB)*time.Second/collectRate
	from := time.Now()
	e, err := s.events.pop(ctx, patience-s.waited)
	s.waited += time.Since(from)
	return e, err
}

// end waits for End where nothing may come before it.
func (s *session) end(ctx context.Context) error {
	e, err := s.collected(ctx)
	if err != nil {
		return fmt.Errorf("wait for the agent's end: %w", err)
	}
	return s.ended(e)
}

func (s *session) ended(e event) error {
	end, ok := e.say.(agentwire.End)
	if !ok {
		return s.unexpected(e)
	}
	s.outcome.SkippedTotal = end.SkippedTotal
	s.outcome.Timing.Ended = e.at.Sub(s.began)
	return nil
}
