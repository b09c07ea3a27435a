package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/failpoint"
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

const (
	// A group of jobs is created in one step, of so many or of so many bytes.
	groupJobs  = 100
	groupBytes = 1 << 20 // one job of so many goes by itself
	// groupTime is how long a job may wait for the others of its group.
	groupTime = time.Second
	// renewInterval is well within the time after which a batch is given up.
	renewInterval = time.Minute
	// putAtOnce is how many large specs of a group go to the bucket side by side.
	putAtOnce = 4
)

// SubmitBatch is [producer.Batches.SubmitBatch].
func (c *Client) SubmitBatch(ctx context.Context, o producer.BatchOptions, specs iter.Seq2[job.Spec, error]) (job.Batch, error) {
	return c.ReceiveBatch(ctx, o, func(yield func(BatchItem, error) bool) {
		for spec, err := range specs {
			item := BatchItem{Spec: spec}
			if err == nil {
				item.JSON, err = json.Marshal(spec)
			}
			if !yield(item, err) {
				return
			}
		}
	})
}

// ReceiveBatch is SubmitBatch of jobs as they come over the wire. It holds a few groups
// of them at most.
func (c *Client) ReceiveBatch(ctx context.Context, o producer.BatchOptions, items iter.Seq2[BatchItem, error]) (job.Batch, error) {
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
	if err := checkCallback(o.Callback, v.terms); err != nil {
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
	r := receiver{client: c, batch: b.ID, continued: continued, progress: o.Progress, permit: o.Permit}
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

// receiver adds jobs to a batch.
type receiver struct {
	client    *Client
	batch     string
	continued bool // there may be some of its jobs already
	progress  func(int)
	permit    func(context.Context) error // or nil
	sent      int
}

// received is a job on its way into the batch.
type received struct {
	index       int
	fingerprint record.Fingerprint
	spec        job.Spec
	invalid     job.Invalid
	done        func() // or nil
}

// arrival is a job as it comes, with the bytes that it was sent as.
type arrival struct {
	received received
	bytes    int
}

// receive reads groups of jobs while the one before is created.
func (r *receiver) receive(ctx context.Context, items iter.Seq2[BatchItem, error]) error {
	work, ctx := errgroup.WithContext(ctx)
	groups := make(chan []received)
	work.Go(func() error {
		for group := range groups {
			if err := r.add(ctx, group); err != nil {
				return err
			}
			for _, item := range group {
				if item.done != nil {
					item.done()
				}
			}
		}
		return nil
	})
	done := make(chan struct{})
	work.Go(func() error { r.renew(ctx, done); return nil })
	err := r.split(ctx, items, groups)
	close(groups)
	close(done)
	if addErr := work.Wait(); addErr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return addErr // which ended the other
	}
	return err
}

// renew keeps the batch from being given up, whatever keeps its next job from coming.
func (r *receiver) renew(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-tick.C:
		}
		if err := r.client.records.RenewBatch(ctx, r.batch); err != nil && ctx.Err() == nil {
			r.client.log.Warn("a batch could not be renewed, trying again", "batch_id", r.batch, "error", err)
		}
	}
}

// split makes groups of the jobs as they come. A group doesn't wait for the next job: its
// sender may pause, and what it takes of memory until its jobs are created others may need.
func (r *receiver) split(ctx context.Context, items iter.Seq2[BatchItem, error], groups chan<- []received) error {
	coming, read := make(chan arrival), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // it ends with items, which end with their sender
		defer close(coming)
		for item, err := range items {
			if err != nil {
				read <- err
				return
			}
			next := arrival{received{0, record.NewFingerprint(item.JSON), item.Spec, item.Invalid, item.Done}, len(item.JSON)}
			select {
			case coming <- next:
			case <-ctx.Done():
				read <- ctx.Err()
				return
			}
		}
		read <- nil
	}()
	// A sender who fails ends the context, too: why it failed says more.
	leave := func(err error) error {
		cancel()
		if readErr := <-read; readErr != nil && !errors.Is(readErr, context.Canceled) {
			return readErr
		}
		return err
	}
	var group []received
	bytes := 0
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		select {
		case groups <- group:
			group, bytes = nil, 0
			if r.progress != nil {
				r.progress(r.sent)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	waited := time.NewTimer(groupTime)
	defer waited.Stop()
	for {
		var err error
		select {
		case next, more := <-coming:
			if !more { // what came is taken if it can be: a batch that goes on need not send it again
				return leave(flush())
			}
			if r.sent == job.MaxBatch {
				_ = flush()
				_ = leave(nil)
				return job.Invalid{{Field: "jobs", Message: "has too many entries", Allowed: fmt.Sprintf("1 to %d", job.MaxBatch)}}
			}
			if bytes+next.bytes > groupBytes {
				err = flush()
			}
			if len(group) == 0 {
				waited.Reset(groupTime)
			}
			next.received.index = r.sent
			group = append(group, next.received)
			bytes += next.bytes
			r.sent++
			if err == nil && (len(group) == groupJobs || bytes >= groupBytes) {
				err = flush()
			}
		case <-waited.C:
			err = flush()
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return leave(err)
		}
	}
}

// add creates the jobs of a group that are valid, and notes why the others are not.
func (r *receiver) add(ctx context.Context, group []received) error {
	if r.permit != nil {
		if err := r.permit(ctx); err != nil {
			return err
		}
	}
	group, err := r.unknown(ctx, group)
	if err != nil || len(group) == 0 {
		return err
	}
	v, err := r.client.validator(ctx)
	if err != nil {
		return err
	}
	var jobs []record.NewJob
	var faults []job.ItemError
	var prints []record.Fingerprint
	for _, item := range group {
		spec, err := item.spec, error(nil)
		if item.invalid == nil && spec.IdempotencyKey != "" {
			item.invalid = job.Invalid{{Field: "idempotency_key", Message: "is not for a job of a batch", Allowed: "a key of the batch"}}
		}
		if item.invalid == nil {
			var limits job.Limits
			if spec, limits, err = v.check(ctx, item.spec); err == nil {
				spec, err = r.client.pinInputs(ctx, spec, limits)
			}
		}
		var invalid job.Invalid
		if errors.As(err, &invalid) {
			item.invalid = invalid
		} else if err != nil {
			return err
		}
		if item.invalid != nil {
			faults, prints = append(faults, rejection(item)), append(prints, item.fingerprint)
			continue
		}
		b, err := job.Marshal(spec)
		if err != nil {
			return fmt.Errorf("encode spec: %w", err)
		}
		jobs = append(jobs, record.NewJob{
			ID: job.ItemID(r.batch, item.index), Spec: spec, JSON: b, Index: item.index, Fingerprint: item.fingerprint,
		})
	}
	if err := r.putLarge(ctx, jobs); err != nil {
		return err
	}
	if len(jobs) > 0 {
		if err := r.client.records.AddToBatch(ctx, r.batch, jobs); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return r.client.records.Reject(ctx, r.batch, prints, faults)
	}
	return nil
}

// unknown drops the jobs that the batch has already. It fails with job.ErrConflict.
func (r *receiver) unknown(ctx context.Context, group []received) ([]received, error) {
	if !r.continued {
		return group, nil
	}
	first := group[0].index
	there, err := r.client.records.Fingerprints(ctx, r.batch, first, len(group))
	if err != nil {
		return nil, err
	}
	var rest []received
	for i, item := range group {
		switch {
		case !there[i].Known():
			rest = append(rest, item)
		case !there[i].Same(item.fingerprint):
			return nil, fmt.Errorf("jobs[%d]: %w", item.index, job.ErrConflict)
		}
	}
	return rest, nil
}

func (r *receiver) putLarge(ctx context.Context, jobs []record.NewJob) error {
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(putAtOnce)
	for i := range jobs {
		if len(jobs[i].JSON) <= record.MaxInline {
			continue
		}
		puts.Go(func() (err error) {
			jobs[i].SpecRef, err = r.client.putLargeSpec(ctx, jobs[i].ID, jobs[i].JSON)
			return err
		})
	}
	return puts.Wait()
}

// What is kept of why one job was rejected: so many faults, of so many characters each.
const (
	maxItemFaults = 8
	maxFaultText  = 300
)

func rejection(item received) job.ItemError {
	e := job.ItemError{Index: item.index, Code: job.CodeInvalid, Message: fmt.Sprintf("%.*s", maxFaultText, item.invalid[0].Error())}
	if more := len(item.invalid) - 1; more > 0 {
		e.Message = fmt.Sprintf("%s (and %d more)", e.Message, more)
	}
	for _, fault := range item.invalid[:min(len(item.invalid), maxItemFaults)] {
		fault.Message, fault.Allowed = fmt.Sprintf("%.*s", maxFaultText, fault.Message), fmt.Sprintf("%.*s", maxFaultText, fault.Allowed)
		e.Errors = append(e.Errors, fault)
	}
	return e
}
