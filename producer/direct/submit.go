package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Submit is [producer.Jobs.Submit].
func (c *Client) Submit(ctx context.Context, spec job.Spec) (producer.Job, error) {
	n := record.NewJob{ID: job.NewID(c.tenant), Key: spec.IdempotencyKey}
	if n.Key != "" {
		// Before anything is checked: what was accepted then may not be any more.
		if j, err := c.again(ctx, &n, spec); !errors.Is(err, job.ErrNotFound) {
			return j, err
		}
	}
	var err error
	if n.Spec, err = c.check(ctx, spec); err != nil {
		return producer.Job{}, err
	}
	if n.JSON, err = job.Marshal(n.Spec); err != nil {
		return producer.Job{}, fmt.Errorf("encode spec: %w", err)
	}
	if n.SpecRef, err = c.putLargeSpec(ctx, n.ID, n.JSON); err != nil {
		return producer.Job{}, fmt.Errorf("submit job: %w", err)
	}
	created, err := c.create(ctx, n)
	switch {
	case err != nil:
		return producer.Job{}, err
	case created.Again:
		return c.keyed(ctx, created.ID)
	}
	failpoint.Hit(failpoint.RecordCreated)
	return producer.Job{Record: accepted(n.ID, n.Spec)}, nil
}

// again finds the job that an earlier Submit with the same key made, or job.ErrNotFound. It
// notes in n what is asked for.
func (c *Client) again(ctx context.Context, n *record.NewJob, spec job.Spec) (producer.Job, error) {
	asked, err := json.Marshal(spec)
	if err != nil {
		return producer.Job{}, fmt.Errorf("encode spec: %w", err)
	}
	n.Asked = record.NewAsked(asked)
	id, err := c.records.Named(ctx, c.tenant, n.Key, n.Asked)
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

// create writes the record. Where Redis did not say that it has, it is looked for: only
// the answer may have got lost.
func (c *Client) create(ctx context.Context, n record.NewJob) (record.Created, error) {
	created, err := c.records.CreateMany(ctx, c.tenant, []record.NewJob{n})
	if err == nil {
		return created[0], created[0].Err
	}
	// Redis may still be about to write it, so the spec in the bucket stays: the sweeper
	// finds it by its announcement if nothing points to it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, getErr := c.records.Get(ctx, n.ID); getErr != nil {
		return record.Created{}, fmt.Errorf("submit job: %w", err)
	}
	return record.Created{ID: n.ID}, nil
}
