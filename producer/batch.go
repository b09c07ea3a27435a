package producer

import (
	"context"
	"fmt"
	"iter"

	"github.com/glovebox-run/glovebox/job"
)

// Batches is what a producer can do with many jobs at once. It is safe for concurrent use.
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
	// the batch's end that is every job. A result that can't be read is one with an Error.
	// The first error that is yielded ends it: what was yielded before is good, and another
	// call from the next index on goes on.
	BatchResults(ctx context.Context, id string, from int) iter.Seq2[job.BatchResult, error]
	// ListBatches returns a page of the tenant's batches, newest first, with cursors as
	// [Lister.List] has them.
	ListBatches(ctx context.Context, o BatchListOptions) (BatchPage, error)
}

var _ Batches = (*Client)(nil)

// BatchOptions say what there is to say of a batch as a whole. The zero value is fine.
type BatchOptions struct {
	job.BatchOptions
	// Progress, if set, is told how many jobs were sent so far, now and then.
	Progress func(sent int)
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
