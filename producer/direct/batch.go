package direct

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// ownsBatch reports whether id is a batch of this tenant, as far as its name tells.
func (c *Client) ownsBatch(id string) bool {
	tenant, ok := job.TenantOfBatch(id)
	return ok && tenant == c.tenant
}

// GetBatch is [producer.Batches.GetBatch].
func (c *Client) GetBatch(ctx context.Context, id string) (job.Batch, error) {
	if !c.ownsBatch(id) { // before there is anything to hold
		return job.Batch{}, job.ErrNotFound
	}
	held := &reservation{Memory: c.memory}
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

// WaitBatch is [producer.Batches.WaitBatch]. It is woken by Redis and bears with outages of up to 30 s.
func (c *Client) WaitBatch(ctx context.Context, id string) (job.Batch, error) {
	if !c.ownsBatch(id) {
		return job.Batch{}, job.ErrNotFound
	}
	return await(ctx, c.done, id, func(ctx context.Context) (job.Batch, bool, error) {
		b, err := c.GetBatch(ctx, id)
		return b, b.Status.Final(), err
	})
}

// CancelBatch is [producer.Batches.CancelBatch].
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

// What a batch has in the place of a result that is not to be had.
var (
	errNotKept = &job.Error{Code: job.CodeNotFound, Message: "the result is kept no longer"}
	errSpoiled = &job.Error{Code: job.CodeInternal, Message: "the result can't be read"}
)

// BatchResults is [producer.Batches.BatchResults].
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
	group := &reservation{Memory: c.memory}
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
	line := &reservation{Memory: c.memory}
	reader := c.ForAnswer(c.tenant, line)
	for i, r := range jobs {
		result := job.BatchResult{Index: first + i, ID: job.ItemID(b.ID, first+i)}
		switch {
		case prints[i].Rejected():
			result.ID, result.Error = "", b.Rejection(result.Index)
		case !prints[i].Known(), r.State != "" && !r.State.Final():
			continue
		case r.ID == "":
			result.Error = errNotKept
		case r.State == "":
			result.Error = errSpoiled
		default:
			j, err := reader.read(ctx, r)
			switch {
			case errors.Is(err, artifacts.ErrNotFound):
				result.Error = errNotKept
			case unreadable(err):
				c.log.WarnContext(ctx, "a result of a batch can't be read", "job_id", r.ID, "error", err)
				result.Error = errSpoiled
			case err != nil:
				line.keep(0)
				return false, err
			default:
				result.Result = j.Result
			}
		}
		more := yield(result, nil)
		line.keep(0)
		if !more {
			return false, nil
		}
	}
	return true, nil
}
