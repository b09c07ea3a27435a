package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// cancelAgain is when the sweeper goes on with a batch that is being canceled: whoever
	// began it may have died.
	cancelAgain = 30 * time.Second
	// cancelGroup is how many jobs of a batch are canceled in one round trip.
	cancelGroup = 100
)

// CancelBatch ends what is queued of a batch and asks the workers of what runs to stop.
// Nothing more of it is received. It fails with job.ErrNotFound or job.ErrEnded; canceling
// one that is canceled changes nothing.
func (s *Store) CancelBatch(ctx context.Context, id string) (Batch, error) {
	return s.cancelBatch(ctx, id, time.Time{}, nil)
}

// errRenewed is a batch that was to be given up, and whose sender was heard of after all.
var errRenewed = errors.New("the batch is not due")

// cancelBatch is CancelBatch that says why, if there is a reason. With overdue, a batch that
// is not to be given up by then is errRenewed.
func (s *Store) cancelBatch(ctx context.Context, id string, overdue time.Time, reason *job.Error) (Batch, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return Batch{}, job.ErrNotFound
	}
	now := s.now()
	answer, err := cancelBatchScript.Run(ctx, s.lasting, tenant, script.Args{"id": id, "now": now, "again": now.Add(cancelAgain), "overdue": overdue}).Text()
	if err != nil {
		return Batch{}, fmt.Errorf("cancel batch: %w", err)
	}
	word, delivery, _ := strings.Cut(answer, " ")
	switch word {
	case "missing":
		return Batch{}, job.ErrNotFound
	case "renewed":
		return Batch{}, errRenewed
	case string(job.BatchCompleted):
		return Batch{}, job.ErrEnded
	case string(job.BatchCanceled):
		return s.GetBatch(ctx, id)
	}
	s.enqueueFirstDelivery(ctx, tenant, delivery)
	b, err := s.GetBatch(ctx, id)
	if err != nil || b.State.Final() {
		return b, err
	}
	if err := s.cancelJobs(ctx, b, reason); err != nil {
		return b, fmt.Errorf("cancel jobs of batch %s: %w", id, err)
	}
	return s.GetBatch(ctx, id)
}

// cancelJobs cancels what has not ended of a batch, in groups, the last jobs first: what
// the end of a job releases would only have to be canceled, too.
func (s *Store) cancelJobs(ctx context.Context, b Batch, reason *job.Error) error {
	if err := cancelScript.Load(ctx, s.rdb); err != nil {
		return err
	}
	var errs []error
	for last := b.Extent; last > 0; last -= cancelGroup {
		var ids []string
		for i := max(last-cancelGroup, 0); i < last; i++ {
			ids = append(ids, job.ItemID(b.ID, i))
		}
		jobs, err := s.readListed(ctx, b.Tenant, ids)
		if err != nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j Record) bool { return j.State.Final() || j.State == "" || j.CancelRequested })
		errs = append(errs, s.cancelMany(ctx, jobs, reason))
	}
	return errors.Join(append(errs, s.Confirm(ctx))...)
}

// cancelMany cancels jobs in one round trip. One that has ended meanwhile is left as it is. The caller has replicas confirm it.
func (s *Store) cancelMany(ctx context.Context, jobs []Record, reason *job.Error) error {
	why, word := &job.Error{Code: job.CodeCanceled, Message: "canceled with its batch before a worker took it"}, "1"
	if reason != nil {
		why, word = reason, reason.Code
	}
	if len(jobs) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	answers := make([]*redis.Cmd, len(jobs))
	for i := len(jobs) - 1; i >= 0; i-- {
		j := jobs[i]
		result, err := job.Marshal(j.Failure(job.Canceled, why, s.now()))
		if err != nil {
			return err
		}
		answers[i] = cancelScript.Pipe(ctx, pipe, j.Tenant, s.finishArgs(ctx, j, Ending{Status: job.Canceled, Result: result}, script.Args{"reason": word}))
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return err
	}
	var errs []error
	for i, a := range answers {
		answer, err := a.Slice()
		if err != nil {
			errs = append(errs, fmt.Errorf("cancel job %s: %w", jobs[i].ID, err))
			continue
		}
		if answer[0] == "ok" { // else it runs, and was asked to stop, or has ended
			s.afterEnd(ctx, jobs[i], job.Canceled, answer)
		}
	}
	return errors.Join(errs...)
}

// sweepBatches goes on with batches that are being canceled, and cancels those whose
// sender has not been heard of for long.
func (w *Sweeper) sweepBatches(ctx context.Context, tenants ...string) error {
	some, err := w.Records.whereDue(ctx, tenants, batchWorkKey, 0)
	if err != nil {
		return err
	}
	return perTenant(w.sweepBatchesOf)(ctx, some...)
}

func (w *Sweeper) sweepBatchesOf(ctx context.Context, tenant string) error {
	ids, err := w.due(ctx, batchWorkKey(tenant))
	if err != nil || len(ids) == 0 {
		return err
	}
	return w.each(ctx, batchWorkKey(tenant), ids, cancelAgain, w.giveUp(ctx, tenant))
}

// giveUp goes on with one batch, unless it is not due any more.
func (w *Sweeper) giveUp(ctx context.Context, tenant string) func(id string) error {
	now := w.Records.now()
	return func(id string) error {
		if of, ok := job.TenantOfBatch(id); !ok || of != tenant {
			return w.Records.rdb.ZRem(ctx, batchWorkKey(tenant), id).Err()
		}
		_, err := w.Records.cancelBatch(ctx, id, now, nil)
		if errors.Is(err, errRenewed) {
			return nil
		}
		if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrEnded) {
			return w.Records.rdb.ZRem(ctx, batchWorkKey(tenant), id).Err()
		}
		return err
	}
}
