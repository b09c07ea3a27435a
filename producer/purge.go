package producer

import (
	"context"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
)

// Purger forgets jobs. It is safe for concurrent use.
type Purger interface {
	// Purge deletes everything that is kept of a job that has ended: its record, result
	// and files, and a delivery that is pending. Once it returns, there is no such job; a
	// bucket that is away loses its files when it is back. A job that has not ended is
	// job.ErrNotEnded.
	Purge(ctx context.Context, id string) error
}

var _ Purger = (*Client)(nil)

// Purge is [Purger.Purge].
func (c *Client) Purge(ctx context.Context, id string) error {
	if !isJobID(id) {
		return job.ErrNotFound // "..", say, would mean another URL
	}
	res, err := c.do(ctx, http.MethodDelete, JobPath(id)+"?purge=true")
	if err != nil {
		return err
	}
	return res.Body.Close()
}
