package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Cancel is [producer.Jobs.Cancel].
func (c *Client) Cancel(ctx context.Context, id string) (producer.Job, error) {
	if err := c.askForEnd(ctx, id); err != nil && !errors.Is(err, job.ErrEnded) {
		return producer.Job{}, err
	}
	j, err := c.Get(ctx, id)
	if err == nil && j.Ended() && j.Status != job.Canceled {
		return producer.Job{}, job.ErrEnded
	}
	return j, err
}

// askForEnd ends a job that waits, and asks for the end of one that runs. It reads nothing of the bucket. It fails with
// job.ErrNotFound or job.ErrEnded.
func (c *Client) askForEnd(ctx context.Context, id string) error {
	if !c.owns(id) {
		return job.ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return err
	}
	result, err := job.Marshal(canceledResult(r, time.Now()))
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = c.records.Cancel(ctx, id, result)
	return err
}

// canceledResult is the result of a job that no worker had.
func canceledResult(r record.Record, now time.Time) job.Result {
	result := r.Failure(job.Canceled, &job.Error{Code: job.CodeCanceled, Message: "canceled before a worker took it"}, now)
	result.Timing.QueueMS = max(now.Sub(r.Ready()), 0).Milliseconds()
	return result
}
