package direct

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
)

// SendInput is [producer.Interactive.SendInput].
func (c *Client) SendInput(ctx context.Context, id string, in job.Input) error {
	if err := in.Check(); err != nil {
		return err
	}
	if !c.owns(id) {
		return job.ErrNotFound
	}
	return c.records.SendInput(ctx, id, in)
}
