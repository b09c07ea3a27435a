package record

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// dueInterval is how often the sweeper looks for jobs to release and for deadlines: how late
// a job may be, besides what its queue makes of it.
const dueInterval = time.Second

// sweepDeadlines ends the jobs that no worker has and whose deadline has passed. One that
// runs is ended by its worker; should that be lost, the job is queued again, and found then.
func (w *Sweeper) sweepDeadlines(ctx context.Context, tenants ...string) error {
	overdue, err := w.Records.whereDue(ctx, tenants, deadlineKey, 0)
	if err != nil {
		return err
	}
	return perTenant(w.endOverdue)(ctx, overdue...)
}

func (w *Sweeper) endOverdue(ctx context.Context, tenant string) error {
	return w.eachDueJob(ctx, tenant, deadlineKey(tenant), job.Status.Final, func(j Record) error {
		if j.State != job.Queued && j.State != job.Held {
			return nil
		}
		return w.Records.EndUnrun(ctx, j.ID, j.Epoch, job.Canceled, ErrDeadline)
	})
}

// eachDueJob calls end with each job that is due in an index of a tenant's. Entries without a job, or with one that is over for the
// index, are taken out.
func (w *Sweeper) eachDueJob(ctx context.Context, tenant, key string, over func(job.Status) bool, end func(Record) error) error {
	ids, err := w.due(ctx, key)
	if err != nil {
		return err
	}
	return w.each(ctx, key, ids, dueInterval, func(id string) error {
		if !ofTenant(id, tenant) {
			return w.Records.rdb.ZRem(ctx, key, id).Err()
		}
		j, err := w.Records.Get(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound), err == nil && over(j.State):
			return w.Records.rdb.ZRem(ctx, key, id).Err()
		case err != nil:
			return err
		}
		return end(j)
	})
}

// ErrDeadline is why a job ended that had not begun by its deadline, or still ran then.
var ErrDeadline = &job.Error{Code: job.CodeDeadlineExceeded, Message: "the job had not ended by its deadline"}
