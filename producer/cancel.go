package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// Cancel is [Jobs.Cancel].
func (c *Client) Cancel(ctx context.Context, id string) (Job, error) {
	if !c.owns(id) {
		return Job{}, job.ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return Job{}, err
	}
	result, err := job.Marshal(canceledResult(r, time.Now()))
	if err != nil {
		return Job{}, fmt.Errorf("encode result: %w", err)
	}
	if _, err := c.records.Cancel(ctx, id, result); err != nil && !errors.Is(err, job.ErrEnded) {
		return Job{}, err
	}
	j, err := c.Get(ctx, id)
	if err == nil && j.Ended() && j.Status != job.Canceled {
		return Job{}, job.ErrEnded
	}
	return j, err
}

// canceledResult is the result of a job that no worker had.
func canceledResult(r record.Job, now time.Time) job.Result {
	result := r.Failure(job.Canceled, &job.Error{Code: "canceled", Message: "canceled before a worker took it"}, now)
	result.Timing.QueueMS = max(now.Sub(r.Ready()), 0).Milliseconds()
	return result
}
