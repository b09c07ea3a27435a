package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// Cancel is [Jobs.Cancel].
func (c *Client) Cancel(ctx context.Context, id string) (Job, error) {
	if !c.owns(id) {
		return Job{}, ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return Job{}, err
	}
	result, err := json.Marshal(canceledResult(r, time.Now()))
	if err != nil {
		return Job{}, fmt.Errorf("encode result: %w", err)
	}
	if _, err := c.records.Cancel(ctx, id, result); err != nil && !errors.Is(err, ErrEnded) {
		return Job{}, err
	}
	j, err := c.Get(ctx, id)
	if err == nil && j.Ended() && j.Status != job.Canceled {
		return Job{}, ErrEnded
	}
	return j, err
}

// canceledResult is the result of a job that no worker had. Metadata is left to the
// record, which has it already: together they may be more than a record holds.
func canceledResult(r record.Job, now time.Time) job.Result {
	now = now.UTC().Truncate(time.Millisecond)
	return job.Result{
		ID: r.ID, Status: job.Canceled,
		Error:     &job.Error{Code: "canceled", Message: "canceled before a worker took it"},
		Runtime:   job.Runtime{Name: r.Runtime},
		Timing:    job.Timing{CreatedAt: r.Created, FinishedAt: &now, QueueMS: max(now.Sub(r.Created), 0).Milliseconds()},
		Artifacts: []job.Artifact{},
		Attempt:   r.Attempts,
	}
}
