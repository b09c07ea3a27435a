package direct

import (
	"context"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// purgeTimeout is how long a Purge waits for the bucket. What it can't delete in time
// the sweeper does.
const purgeTimeout = 10 * time.Second

// Purge is [producer.Purger.Purge].
func (c *Client) Purge(ctx context.Context, id string) error {
	if !c.owns(id) {
		return job.ErrNotFound
	}
	if err := c.records.Purge(ctx, id); err != nil {
		return err
	}
	// The job is gone: who leaves now leaves nothing half done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), purgeTimeout)
	defer cancel()
	held, err := c.records.Held(ctx)
	if held { // by a backup: the sweeper deletes them after it
		return nil
	}
	if err == nil {
		err = c.objects.SweepJob(ctx, c.tenant, id, 0)
	}
	if err == nil {
		err = c.records.Purged(ctx, id)
	}
	if err != nil {
		c.log.WarnContext(ctx, "objects of a purged job are left to the sweeper", "job_id", id, "error", err)
	}
	return nil
}
