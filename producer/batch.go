package producer

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// Batches is what a producer can do with many jobs at once. Safe for concurrent use.
type Batches interface {
	// SubmitBatch accepts the jobs that specs yields as one batch, of job.MaxBatch at
	// most. A job that is not valid is rejected, and the others go on; Batch.Errors says
	// why. Jobs run as soon as they are accepted, and once SubmitBatch returns without an
	// error, all of them will come to a result and the batch to its end.
	//
	// Where the batch can't be received to its end, the error is a *BatchError, and a
	// batch without an idempotency key is canceled. With one, calling SubmitBatch again
	// with the same key and specs goes on with it, within 15 minutes, and makes no job
	// twice; after its end it returns that batch. Other specs, or options, under that key
	// are a *job.Error of code idempotency_conflict.
	//
	// An error that specs yields ends it, and is returned.
	SubmitBatch(ctx context.Context, o BatchOptions, specs iter.Seq2[job.Spec, error]) (job.Batch, error)
	// GetBatch returns the batch as it is now, or job.ErrNotFound.
	GetBatch(ctx context.Context, id string) (job.Batch, error)
	// WaitBatch returns the batch once all its jobs have ended. When ctx ends before that,
	// it fails with ctx's error; the batch goes on.
	WaitBatch(ctx context.Context, id string) (job.Batch, error)
	// CancelBatch ends what is queued of a batch at once, and asks for the end of what
	// runs: the batch that it returns may not have ended yet. Canceling a canceled batch
	// again changes nothing; one that has completed is job.ErrEnded.
	CancelBatch(ctx context.Context, id string) (job.Batch, error)
	// BatchResults yields what has ended of a batch, by index, from that index on; after
	// the batch's end that is every job. The first error ends it: what was yielded before
	// is good, and another call from the next index on goes on.
	BatchResults(ctx context.Context, id string, from int) iter.Seq2[job.BatchResult, error]
	// ListBatches returns a page of the tenant's batches, newest first, with cursors as
	// List has them.
	ListBatches(ctx context.Context, o BatchListOptions) (BatchPage, error)
}

// BatchOptions say what there is to say of a batch as a whole. The zero value is fine.
type BatchOptions struct {
	job.BatchOptions
	// Progress, if set, is told how many jobs were sent so far, now and then.
	Progress func(sent int)
	// Permit, if set, is asked before each group of jobs is created. Its error ends the batch.
	Permit func(context.Context) error
}

// BatchListOptions say which batches to list. The zero value lists the newest.
type BatchListOptions struct {
	// Limit is how many batches to return at most, up to MaxPage. Defaults to DefaultPage.
	Limit int
	// Cursor is the Next of the page before.
	Cursor string
}

// BatchPage is a part of a list of batches.
type BatchPage struct {
	// Batches are the newest first, without the errors of their rejected jobs.
	Batches []job.Batch `json:"batches" nullable:"false" doc:"The newest first, without the errors of rejected jobs."`
	// Next is the Cursor of the next page, "" on the last.
	Next string `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// BatchError says that a batch was not received to its end.
type BatchError struct {
	// Batch as it was left: canceled, unless it has an idempotency key.
	Batch job.Batch
	Err   error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %s: %v; %d jobs of it were taken", e.Batch.ID, e.Err, e.Batch.Jobs)
}

func (e *BatchError) Unwrap() error { return e.Err }

// ownsBatch reports whether id is a batch of this tenant, as far as its name tells.
func (c *Client) ownsBatch(id string) bool {
	tenant, ok := job.TenantOfBatch(id)
	return ok && tenant == c.tenant
}

// GetBatch is [Batches.GetBatch].
func (c *Client) GetBatch(ctx context.Context, id string) (job.Batch, error) {
	if !c.ownsBatch(id) { // before there is anything to hold
		return job.Batch{}, job.ErrNotFound
	}
	held := &loan{Room: c.room}
	if err := held.Take(ctx, answerWeight*(listedBytes+itemErrorBytes*job.MaxBatchErrors)); err != nil {
		return job.Batch{}, err
	}
	b, err := c.batch(ctx, id)
	if err != nil {
		held.keep(0)
		return job.Batch{}, err
	}
	held.keep(listed(b.Metadata) + answerWeight*itemErrorBytes*int64(len(b.Errors)))
	return c.wireBatch(b)
}

func (c *Client) batch(ctx context.Context, id string) (record.Batch, error) {
	if !c.ownsBatch(id) {
		return record.Batch{}, job.ErrNotFound
	}
	return c.records.GetBatch(ctx, id)
}

// Batch returns a batch as [Client.GetBatch] would, whosever it is. The deliverer calls
// it, which serves every tenant.
func (c *Client) Batch(ctx context.Context, id string) (job.Batch, error) {
	b, err := c.records.GetBatch(ctx, id)
	if err != nil {
		return job.Batch{}, err
	}
	return c.wireBatch(b)
}

// WaitBatch is [Batches.WaitBatch]. It is woken by Redis and bears with outages of up to 30 s.
func (c *Client) WaitBatch(ctx context.Context, id string) (job.Batch, error) {
	if !c.ownsBatch(id) {
		return job.Batch{}, job.ErrNotFound
	}
	return await(ctx, c.done, id, func(ctx context.Context) (job.Batch, bool, error) {
		b, err := c.GetBatch(ctx, id)
		return b, b.Status.Final(), err
	})
}

// CancelBatch is [Batches.CancelBatch].
func (c *Client) CancelBatch(ctx context.Context, id string) (job.Batch, error) {
	if !c.ownsBatch(id) {
		return job.Batch{}, job.ErrNotFound
	}
	b, err := c.records.CancelBatch(ctx, id)
	if err != nil {
		return job.Batch{}, err
	}
	return c.wireBatch(b)
}

func (c *Client) wireBatch(b record.Batch) (job.Batch, error) {
	w := job.Batch{
		ID: b.ID, Status: b.State, Total: b.Total(), Jobs: b.Jobs, Rejected: b.Rejected, Counts: b.Ended,
		CancelRequested: b.CancelRequested, CreatedAt: b.Created, Errors: b.Errors, Metadata: b.Metadata,
	}
	for _, n := range b.Ended {
		w.Ended += n
	}
	if !b.Sealed.IsZero() {
		w.SealedAt = &b.Sealed
	}
	if b.Finished.IsZero() {
		return w, nil
	}
	w.FinishedAt = &b.Finished
	if c.links == nil {
		return w, nil
	}
	var err error
	w.ResultsURL, err = c.links.BatchURL(b.ID, b.Expires())
	return w, err
}

const (
	// resultsGroup is how many records are read in one round trip for BatchResults.
	resultsGroup = 32
	// batchEnding is what it may take to cancel a batch that can't be received.
	batchEnding = 30 * time.Second
)

// BatchResults is [Batches.BatchResults].
func (c *Client) BatchResults(ctx context.Context, id string, from int) iter.Seq2[job.BatchResult, error] {
	return func(yield func(job.BatchResult, error) bool) {
		b, err := c.batch(ctx, id)
		if err != nil {
			yield(job.BatchResult{}, err)
			return
		}
		for first := max(from, 0); first < b.Extent; first += resultsGroup {
			if more, err := c.results(ctx, b, first, min(resultsGroup, b.Extent-first), yield); err != nil {
				yield(job.BatchResult{}, err)
				return
			} else if !more {
				return
			}
		}
	}
}

// results yields what has ended of n jobs, from index first on. Their records are read at
// once, and a result that is not in its record when its turn comes: 32 of them may be large.
func (c *Client) results(ctx context.Context, b record.Batch, first, n int, yield func(job.BatchResult, error) bool) (more bool, err error) {
	group := &loan{Room: c.room}
	if err := group.Take(ctx, record.MaxInline*int64(n)); err != nil {
		return false, err
	}
	defer group.keep(0)
	prints, err := c.records.Fingerprints(ctx, b.ID, first, n)
	if err != nil {
		return false, err
	}
	jobs, err := c.records.BatchJobs(ctx, b.ID, first, n)
	if err != nil {
		return false, err
	}
	needed := int64(0)
	for _, r := range jobs {
		needed += int64(len(r.Result))
	}
	group.keep(needed)
	line := &loan{Room: c.room}
	reader := c.ForAnswer(c.tenant, line)
	for i, r := range jobs {
		result := job.BatchResult{Index: first + i, ID: job.ItemID(b.ID, first+i)}
		switch {
		case prints[i].Rejected():
			result.ID, result.Error = "", b.Rejection(result.Index)
		case !prints[i].Known(), r.ID != "" && !r.State.Final():
			continue
		case r.ID == "":
			result.Error = &job.Error{Code: job.CodeNotFound, Message: "the result is kept no longer"}
		default:
			j, err := reader.read(ctx, r)
			if err != nil {
				line.keep(0)
				return false, err
			}
			result.Result = j.Result
		}
		more := yield(result, nil)
		line.keep(0)
		if !more {
			return false, nil
		}
	}
	return true, nil
}
