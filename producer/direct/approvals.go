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
	held, err := c.takeListed(ctx, producer.MaxApprovals)
	if err != nil {
		return nil, err
	}
	jobs, err := c.records.HeldJobs(ctx, c.tenant, producer.MaxApprovals)
	if err != nil {
		held.keep(0)
		return nil, err
	}
	list, needed := make([]job.Pending, len(jobs)), int64(0)
	for i, j := range jobs {
		list[i] = listedPending(j)
		needed += listed(j.Metadata)
	}
	held.keep(needed)
	return list, nil
}

// Pending is what the list of approvals has of a job. It fails with job.ErrNotHeld for one that waits for no decision.
func (c *Client) Pending(ctx context.Context, id string) (job.Pending, error) {
	j, err := c.heldJob(ctx, id)
	if err != nil {
		return job.Pending{}, err
	}
	return listedPending(j), nil
}

func listedPending(j record.Record) job.Pending {
	return job.Pending{Summary: wireSummary(j), Session: j.Session}
}

// Approval is [producer.Approvals.Approval].
func (c *Client) Approval(ctx context.Context, id string) (job.Pending, error) {
	j, err := c.heldJob(ctx, id)
	if err != nil {
		return job.Pending{}, err
	}
	c = c.ForAnswer(c.tenant, &upTo{c.memory, mostTaken}) // for spec and session together
	text, err := c.heldSpec(ctx, j)
	if err != nil {
		return job.Pending{}, err
	}
	p := job.Pending{Summary: wireSummary(j), Context: j.Place.Context, Language: j.Place.Language, Session: j.Session, Spec: &job.Spec{}}
	if err := json.Unmarshal(text, p.Spec); err != nil {
		return job.Pending{}, fmt.Errorf("read spec of job %s: %w", id, err)
	}
	if j.Session != "" { // whose environment its executions have, which stays as it is
		x, err := c.takeSession(ctx, c.memory, j.Session)
		if err != nil {
			return job.Pending{}, err
		}
		p.Spec.Env, p.Spec.Secrets = x.Settings.Env, x.Settings.Secrets
	}
	// What is decided about is what is shown here.
	p.Hold.InputHash = record.HashInput(id, text)
	return p, nil
}

// Approve is [producer.Approvals.Approve].
func (c *Client) Approve(ctx context.Context, id string, d job.Decision) (job.Summary, error) {
	j, err := c.undecided(ctx, id, d)
	if err != nil {
		return job.Summary{}, err
	}
	text, err := c.heldSpec(ctx, j)
	if err != nil {
		return job.Summary{}, err
	}
	if now := record.HashInput(id, text); d.InputHash != now || j.Hold.InputHash != now {
		return job.Summary{}, job.ErrOtherInput
	}
	err = c.records.Approve(ctx, j, job.Approval{Rule: j.Hold.Rule, By: c.who(), At: toMS(time.Now()), Note: d.Note, InputHash: d.InputHash})
	if err != nil {
		return job.Summary{}, err
	}
	r := wireSummary(j)
	r.Status, r.Hold = job.Queued, nil
	return r, nil
}

// Reject is [producer.Approvals.Reject].
func (c *Client) Reject(ctx context.Context, id string, d job.Decision) (job.Summary, error) {
	j, err := c.undecided(ctx, id, d)
	if err != nil {
		return job.Summary{}, err
	}
	if d.InputHash != j.Hold.InputHash { // a job that was changed meanwhile can be rejected as it was, and as it is
		text, err := c.heldSpec(ctx, j)
		if err != nil {
			return job.Summary{}, err
		}
		if d.InputHash != record.HashInput(id, text) {
			return job.Summary{}, job.ErrOtherInput
		}
	}
	message := "rejected by " + c.who()
	if d.Note != "" {
		message += ": " + d.Note
	}
	if err := c.records.Refuse(ctx, j, &job.Error{Code: job.CodeRejected, Message: message}); err != nil {
		return job.Summary{}, err
	}
	r := wireSummary(j)
	r.Status, r.Hold = job.Canceled, nil
	return r, nil
}

// undecided is the job that a decision is about, if its caller may decide.
func (c *Client) undecided(ctx context.Context, id string, d job.Decision) (record.Record, error) {
	if err := d.Check(); err != nil {
		return record.Record{}, err
	}
	j, err := c.heldJob(ctx, id)
	if err == nil && j.Hold.By != "" && j.Hold.By == c.token.ID {
		err = job.ErrOwnApproval
	}
	return j, err
}

// heldJob reads a job that waits for a decision.
func (c *Client) heldJob(ctx context.Context, id string) (record.Record, error) {
	if !c.owns(id) {
		return record.Record{}, job.ErrNotFound
	}
	j, err := c.records.Get(ctx, id)
	if err == nil && (j.State != job.Held || j.Hold == nil) {
		err = job.ErrNotHeld
	}
	return j, err
}

// heldSpec reads the spec of a job as it is stored. A large one takes memory.
func (c *Client) heldSpec(ctx context.Context, j record.Record) ([]byte, error) {
	if j.SpecRef == "" {
		return []byte(j.SpecText), nil
	}
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return c.objects.GetHeld(ctx, keys.Spec(), maxSpec, func(size int64) error { return c.memory.Take(ctx, min(answerWeight*size, mostTaken)) })
}

// who is how an approval names the caller.
func (c *Client) who() string {
	if c.token.Label != "" {
		return fmt.Sprintf("%s (%s)", c.token.Label, c.token.ID)
	}
	return c.token.ID
}
