package record

import (
	"context"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// PurgeSession deletes the record of a session that has ended, and the deliveries of its end, even pending ones; its executions are the caller's to
// purge before. It fails with job.ErrNoSession or job.ErrSessionLive.
func (s *Store) PurgeSession(ctx context.Context, id string) error {
	x, err := s.GetSession(ctx, id)
	if err != nil {
		return err
	}
	deliveries, err := s.SessionDeliveries(ctx, x)
	if err != nil {
		return err
	}
	rest := []any{MessageID(sessionNews(id), job.EventSessionEnded)} // one that no endpoint has yet
	for _, did := range deliveries {
		rest = append(rest, did)
	}
	answer, err := purgeSessionScript.Run(ctx, s.rdb, x.Tenant, script.Args{"id": id, "now": s.now()}, rest...).Slice()
	switch {
	case err != nil:
		return fmt.Errorf("purge session: %w", err)
	case answer[0] == "missing":
		return job.ErrNoSession
	case answer[0] == "kept":
		return job.ErrSessionLive
	}
	s.enqueueDeliveries(ctx, x.Tenant, answer[1])
	return nil
}
