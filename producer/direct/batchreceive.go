package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// BatchItem is a job of a batch as it was sent.
type BatchItem struct {
	// JSON is what was sent: the same bytes are the same job. Nobody keeps it beyond the
	// next item.
	JSON []byte
	Spec job.Spec
	// Invalid says what is wrong with its shape; then there is no Spec.
	Invalid job.Invalid
	// Done, if set, is called once nothing of the item is held any more; not for what a
	// batch that fails leaves.
	Done func()
}

// SubmitBatch is [producer.Batches.SubmitBatch].
func (c *Client) SubmitBatch(ctx context.Context, o producer.BatchOptions, specs iter.Seq2[job.Spec, error]) (job.Batch, error) {
	return c.ReceiveBatch(ctx, o, nil, itemsOf(specs))
}

// itemsOf are jobs as if they had been sent.
func itemsOf(specs iter.Seq2[job.Spec, error]) iter.Seq2[BatchItem, error] {
	return func(yield func(BatchItem, error) bool) {
		for spec, err := range specs {
			item := BatchItem{Spec: spec}
			if err == nil {
				item.JSON, err = json.Marshal(spec)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// ReceiveBatch is SubmitBatch of jobs as they come over the wire. It holds a few groups
// of them at most. permit, if it is not nil, is asked before each group is created, and its
// error ends the batch.
func (c *Client) ReceiveBatch(ctx context.Context, o producer.BatchOptions, permit func(context.Context) error, items iter.Seq2[BatchItem, error]) (job.Batch, error) {
	return c.receiveBatch(ctx, o, receiver{client: c, permit: permit}, items)
}

func (c *Client) receiveBatch(ctx context.Context, o producer.BatchOptions, r receiver, items iter.Seq2[BatchItem, error]) (job.Batch, error) {
	if err := o.Check(); err != nil {
		return job.Batch{}, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return job.Batch{}, err
	}
	if len(v.runtimes) == 0 {
		return job.Batch{}, job.ErrNoRuntimes
	}
	if err := v.checkCallback(o.Callback); err != nil {
		return job.Batch{}, err
	}
	if err := c.judgeCallback(v.terms, policy.KindBatch, o.Callback, o.Metadata); err != nil {
		return job.Batch{}, err
	}
	// Nothing is begun for what holds no job.
	next, stop := iter.Pull2(items)
	defer stop()
	first, err, some := next()
	if !some {
		err = emptyBatch
	}
	if err != nil {
		return job.Batch{}, err
	}
	b, continued, err := c.records.OpenBatch(ctx, c.tenant, o.BatchOptions)
	if err != nil {
		return job.Batch{}, err
	}
	r.batch, r.continued, r.progress, r.callback = b.ID, continued, o.Progress, o.Callback
	if err := r.receive(ctx, func(yield func(BatchItem, error) bool) {
		for item, err, more := first, error(nil), true; more && yield(item, err); {
			item, err, more = next()
		}
	}); err != nil {
		return c.leaveBatch(ctx, b.ID, o.IdempotencyKey != "", err)
	}
	failpoint.Hit(failpoint.BatchReceived)
	if b, err = c.records.SealBatch(ctx, b.ID, r.sent); err != nil {
		return c.leaveBatch(ctx, r.batch, o.IdempotencyKey != "", err)
	}
	return c.wireBatch(b)
}

// leaveBatch says how a batch is left that was not received to its end. Nobody can go on
// with one that has no key, so that one is canceled.
func (c *Client) leaveBatch(ctx context.Context, id string, keyed bool, cause error) (job.Batch, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchEnding)
	defer cancel()
	var b record.Batch
	var err error
	if keyed {
		b, err = c.records.GetBatch(ctx, id)
	} else {
		b, err = c.records.CancelBatch(ctx, id)
	}
	if errors.Is(cause, record.ErrSealed) {
		cause = &job.Error{Code: job.CodeConflict, Message: job.ErrConflict.Message + ": " + record.ErrSealed.Error()}
		if b.CancelRequested { // meanwhile, by somebody else
			cause = job.ErrEnded
		}
	}
	if err != nil { // the sweeper will
		c.log.Warn("a batch that was not received to its end is left to the sweeper", "batch_id", id, "error", err)
		b.ID = id
	}
	left, err := c.wireBatch(b)
	if err != nil {
		left.ID = id
	}
	return left, &producer.BatchError{Batch: left, Err: cause}
}

// emptyBatch is what is wrong with a batch without jobs.
var emptyBatch = job.Invalid{{Field: "jobs", Message: "is empty", Allowed: fmt.Sprintf("1 to %d", job.MaxBatch)}}
