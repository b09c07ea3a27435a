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
	key := deadlineKey(tenant)
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
		case errors.Is(err, job.ErrNotFound), err == nil && j.State.Final():
			return w.Records.rdb.ZRem(ctx, key, id).Err()
		case err != nil || j.State != job.Queued && j.State != job.Held:
			return err
		}
		return w.Records.EndUnrun(ctx, id, j.Epoch, job.Canceled, ErrDeadline)
	})
}

// ErrDeadline is why a job ended that had not begun by its deadline, or still ran then.
var ErrDeadline = &job.Error{Code: job.CodeDeadlineExceeded, Message: "the job had not ended by its deadline"}
