package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Submit is [producer.Jobs.Submit].
func (c *Client) Submit(ctx context.Context, spec job.Spec) (producer.Job, error) {
	return c.SubmitAsked(ctx, spec, spec)
}

// SubmitAsked is Submit of a spec that was made of what was asked for: that is what another request under its idempotency key is compared with.
func (c *Client) SubmitAsked(ctx context.Context, spec, asked job.Spec) (producer.Job, error) {
	n := record.NewJob{ID: job.NewID(c.tenant), Key: spec.IdempotencyKey, Watched: c.watching}
	if n.Key != "" {
		// Before anything is checked: what was accepted then may not be any more.
		text, err := json.Marshal(asked)
		if err != nil {
			return producer.Job{}, fmt.Errorf("encode spec: %w", err)
		}
		if j, err := c.replay(ctx, &n, text); !errors.Is(err, job.ErrNotFound) {
			return j, err
		}
	}
	if invalid := job.OwnMetadata(spec.Metadata); invalid != nil {
		return producer.Job{}, invalid
	}
	return c.accept(ctx, n, spec)
}

// accept checks the spec of a new job and creates it.
func (c *Client) accept(ctx context.Context, n record.NewJob, spec job.Spec) (producer.Job, error) {
	head, done, err := c.makeOfProblem(ctx, spec.Problem)
	if err != nil {
		return producer.Job{}, err
	}
	defer done()
	if err := c.prepare(ctx, &n, spec, head, nil); err != nil {
		return producer.Job{}, err
	}
	created, err := c.create(ctx, n)
	switch {
	case err != nil:
		return producer.Job{}, err
	case created.Again:
		return c.keyed(ctx, created.ID)
	}
	failpoint.Hit(failpoint.RecordCreated)
	return producer.Job{Summary: accepted(n.ID, created.At, n.Spec, n.Hold)}, nil
}

// prepare checks the spec of a new job, and notes in n what is to be created. head is that of the problem that the job names, around the
// callback of its run. It fails with job.CodeDenied where a rule denies it.
func (c *Client) prepare(ctx context.Context, n *record.NewJob, spec job.Spec, head job.ProblemHead, around *job.Callback) error {
	v, err := c.validator(ctx)
	if err != nil {
		return err
	}
	v.head = head
	checked, limits, err := v.check(ctx, spec)
	if err != nil {
		return err
	}
	if n.Spec, err = v.pin(ctx, checked, limits); err != nil {
		return err
	}
	if n.JSON, err = job.Marshal(n.Spec); err != nil {
		return fmt.Errorf("encode spec: %w", err)
	}
	kind := policy.KindJob
	if n.Step != "" {
		kind = policy.KindPipeline
	}
	verdict, err := c.judge(v.terms, policy.Subject{Kind: kind, Spec: n.Spec, Limits: limits, Around: around})
	if err != nil {
		return err
	}
	n.Hold = c.held(verdict, n.ID, n.JSON)
	if n.SpecRef, err = c.putLargeSpec(ctx, n.ID, n.JSON); err != nil {
		return fmt.Errorf("submit job: %w", err)
	}
	return nil
}

// replay finds the job that an earlier Submit with the same key made, or job.ErrNotFound. It
// notes in n what is asked for.
func (c *Client) replay(ctx context.Context, n *record.NewJob, asked []byte) (producer.Job, error) {
	n.RequestHash = record.HashRequest(asked)
	id, err := c.records.FindByKey(ctx, c.tenant, n.Key, n.RequestHash)
	if err != nil {
		return producer.Job{}, err
	}
	return c.keyed(ctx, id)
}

// keyed is the job that an idempotency key began. It fails with a *job.GoneError where that
// is no longer kept.
func (c *Client) keyed(ctx context.Context, id string) (producer.Job, error) {
	j, err := c.Get(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		err = &job.GoneError{ID: id}
	}
	return j, err
}

// putLargeSpec stores a spec that is too large for Redis, and returns its key. The
// bucket has it before the record points to it; should there never be a record, the
// announcement lets the sweeper find it.
func (c *Client) putLargeSpec(ctx context.Context, id string, b []byte) (key string, err error) {
	if len(b) <= record.MaxInline {
		return "", nil
	}
	keys, err := artifacts.JobKeys(c.tenant, id)
	if err != nil {
		return "", err
	}
	if err := c.records.CheckRoom(ctx, c.tenant, int64(len(b))); err != nil {
		return "", err
	}
	if err := c.records.Announce(ctx, id); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err = c.objects.PutBytes(ctx, keys.Spec(), "application/json", b)
	return keys.Spec(), err
}

// create writes the record. Where Redis did not say that it has, it is looked for: only
// the answer may have got lost.
func (c *Client) create(ctx context.Context, n record.NewJob) (_ record.Created, err error) {
	var sent func(error)
	n.Trace, sent = c.tracer.Send(ctx, n.ID)
	defer func() { sent(err) }()
	created, err := c.records.CreateOne(ctx, c.tenant, n)
	if err == nil {
		return created, created.Err
	}
	// Redis may still be about to write it, so the spec in the bucket stays: the sweeper
	// finds it by its announcement if nothing points to it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	written, getErr := c.records.Get(ctx, n.ID)
	if getErr != nil {
		return record.Created{}, fmt.Errorf("submit job: %w", err)
	}
	if err := c.records.Confirm(ctx); err != nil { // it may be on the primary alone
		return record.Created{}, fmt.Errorf("submit job: %w", err)
	}
	return record.Created{ID: n.ID, At: written.Created}, nil
}

// accepted is the record of a job that was just created, without reading it back: a
// read that failed would hide that the job is accepted. created is the time that the record
// has: one that is read here would be later, and whoever lists jobs since then would miss this one.
func accepted(id string, created time.Time, spec job.Spec, held *record.Held) job.Summary {
	times := record.Record{Created: toMS(created), RunAt: toMS(spec.RunAt), Deadline: toMS(spec.Deadline)}
	r := job.Summary{
		ID: id, Status: job.Queued, Runtime: job.Runtime{Name: spec.Runtime, Image: spec.Image}, Priority: spec.Priority, Placement: spec.Placement,
		Timing: times.Timing(), Problem: spec.Problem, Metadata: spec.Metadata,
	}
	if r.Priority == "" {
		r.Priority = job.Normal
	}
	if held != nil {
		r.Status, r.Hold = job.Held, &held.Hold
	}
	return r
}
