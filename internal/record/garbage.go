package record

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sweepGarbage deletes the objects that no record points to: those of tries that lost,
// of jobs that were announced and never created, and of records that have expired.
func (w *Sweeper) sweepGarbage(ctx context.Context, tenant string) error {
	ids, err := w.due(ctx, garbageKey(tenant), 0)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		if err := w.sweepObjects(ctx, tenant, id); err != nil {
			errs = append(errs, err, w.look(ctx, garbageKey(tenant), id, w.Records.now().Add(garbageRetry)))
		}
	}
	return errors.Join(errs...)
}

// sweepObjects deletes what is garbage of one job by now, and says when to look again.
func (w *Sweeper) sweepObjects(ctx context.Context, tenant, id string) error {
	j, err := w.Records.Get(ctx, id)
	gone := errors.Is(err, ErrNotFound)
	if err != nil && !gone {
		return err
	}
	if !gone && !j.State.Final() {
		// Its end sets a time of its own. It may have just done so, hence not a removal.
		return w.look(ctx, garbageKey(tenant), id, w.Records.now().Add(announceDelay))
	}
	keep := 0
	if j.ResultRef != "" {
		keep = j.Epoch
	}
	bounded, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := w.DeleteObjects(bounded, tenant, id, keep); err != nil {
		return fmt.Errorf("delete objects of %s but epoch %d: %w", id, keep, err)
	}
	if again, ok := w.sweepAgain(j, keep); ok && !gone {
		return w.look(ctx, garbageKey(tenant), id, again)
	}
	if err := w.Records.rdb.ZRem(ctx, garbageKey(tenant), id).Err(); err != nil {
		return fmt.Errorf("note that %s is swept: %w", id, err)
	}
	return nil
}

// sweepAgain is when a job that has ended is to be swept once more, if ever.
func (w *Sweeper) sweepAgain(j Job, keep int) (time.Time, bool) {
	now := w.Records.now()
	if second := j.Finished.Add(secondSweepDelay); now.Before(second) {
		return second, true
	}
	if keep == 0 {
		return time.Time{}, false
	}
	expired := j.Finished.Add(w.Records.retention + expiredDelay)
	if expired.Before(now) { // another process was told of another retention
		expired = now.Add(time.Hour)
	}
	return expired, true
}
