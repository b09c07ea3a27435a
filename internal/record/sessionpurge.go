package record

import (
	"context"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// PurgeSession deletes the record of a session that has ended; its executions are the caller's to purge before. It fails with job.ErrNoSession or
// job.ErrNotEnded.
func (s *Store) PurgeSession(ctx context.Context, id string) error {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return job.ErrNoSession
	}
	word, err := purgeSessionScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "now": s.now()}).Text()
	switch {
	case err != nil:
		return fmt.Errorf("purge session: %w", err)
	case word == "missing":
		return job.ErrNoSession
	case word == "kept":
		return job.ErrNotEnded
	}
	return nil
}
