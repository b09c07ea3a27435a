package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// maxSpec bounds a spec that is read from the bucket: what a worker reads of one.
const maxSpec = 256 << 20

// Approvals is [producer.Approvals.Approvals].
func (c *Client) Approvals(ctx context.Context) ([]job.Pending, error) {
	held, err := c.records.HeldJobs(ctx, c.tenant, producer.MaxApprovals)
	if err != nil {
		return nil, err
	}
	list := make([]job.Pending, len(held))
	for i, j := range held {
		list[i] = job.Pending{Record: wireRecord(j), Session: j.Session}
	}
	return list, nil
}

// Approval is [producer.Approvals.Approval].
func (c *Client) Approval(ctx context.Context, id string) (job.Pending, error) {
	j, text, err := c.heldJob(ctx, id)
	if err != nil {
		return job.Pending{}, err
	}
	p := job.Pending{Record: wireRecord(j), Session: j.Session, Spec: &job.Spec{}}
	if err := json.Unmarshal(text, p.Spec); err != nil {
		return job.Pending{}, fmt.Errorf("read spec of job %s: %w", id, err)
	}
	// What is decided about is what is shown here.
	p.Hold.InputHash = record.HashInput(id, text)
	return p, nil
}

// Approve is [producer.Approvals.Approve].
func (c *Client) Approve(ctx context.Context, id string, d job.Decision) (job.Record, error) {
	j, err := c.decidedAbout(ctx, id, d)
	if err != nil {
		return job.Record{}, err
	}
	err = c.records.Approve(ctx, j, job.Approval{Rule: j.Hold.Rule, By: c.who(), At: toMS(time.Now()), Note: d.Note, InputHash: d.InputHash})
	if err != nil {
		return job.Record{}, err
	}
	r := wireRecord(j)
	r.Status, r.Hold = job.Queued, nil
	return r, nil
}

// Reject is [producer.Approvals.Reject].
func (c *Client) Reject(ctx context.Context, id string, d job.Decision) (job.Record, error) {
	j, err := c.decidedAbout(ctx, id, d)
	if err != nil {
		return job.Record{}, err
	}
	message := "rejected by " + c.who()
	if d.Note != "" {
		message += ": " + d.Note
	}
	if err := c.records.Refuse(ctx, j, &job.Error{Code: job.CodeRejected, Message: message}); err != nil {
		return job.Record{}, err
	}
	r := wireRecord(j)
	r.Status, r.Hold = job.Canceled, nil
	return r, nil
}

// decidedAbout is the job that a decision is about, if its caller may decide, and it is still what the caller was shown.
func (c *Client) decidedAbout(ctx context.Context, id string, d job.Decision) (record.Job, error) {
	if err := d.Check(); err != nil {
		return record.Job{}, err
	}
	j, text, err := c.heldJob(ctx, id)
	if err != nil {
		return record.Job{}, err
	}
	if j.Hold.By != "" && j.Hold.By == c.token.ID {
		return record.Job{}, job.ErrOwnApproval
	}
	if now := record.HashInput(id, text); d.InputHash != now || j.Hold.InputHash != now {
		return record.Job{}, job.ErrOtherInput
	}
	return j, nil
}

// heldJob reads a job that waits for a decision, with its spec as it is stored.
func (c *Client) heldJob(ctx context.Context, id string) (record.Job, []byte, error) {
	if !c.owns(id) {
		return record.Job{}, nil, job.ErrNotFound
	}
	j, err := c.records.Get(ctx, id)
	if err != nil {
		return record.Job{}, nil, err
	}
	if j.State != job.Held || j.Hold == nil {
		return record.Job{}, nil, job.ErrNotHeld
	}
	if j.SpecRef == "" {
		return j, []byte(j.SpecText), nil
	}
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err != nil {
		return record.Job{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	text, err := c.objects.GetHeld(ctx, keys.Spec(), maxSpec, func(size int64) error { return c.memory.Take(ctx, answerWeight*size) })
	return j, text, err
}

// who is how an approval names the caller.
func (c *Client) who() string {
	if c.token.Label != "" {
		return fmt.Sprintf("%s (%s)", c.token.Label, c.token.ID)
	}
	return c.token.ID
}
