package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// sweepGarbage deletes the objects that no record points to: those of tries that lost,
// of jobs that were announced and never created, and of records that have expired; and
// uploads that nobody has asked for lately. It forgets batches and sessions whose records have expired.
func (w *Sweeper) sweepGarbage(ctx context.Context, tenants ...string) error {
	var errs []error
	end := time.Now().Add(sweepInterval)
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		waiting, err := w.Records.whereDue(ctx, some, garbageKey, 0)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for few := range slices.Chunk(waiting, garbageAtOnce) {
			failed, err := w.sweepGarbageOf(ctx, few, end)
			if errs = append(errs, failed...); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
	}
	return errors.Join(errs...)
}

// sweepGarbageOf takes a page of each tenant, and more where there is more, until end: what
// records take of Redis is given back here, and a tenant may end more than a page in an interval.
func (w *Sweeper) sweepGarbageOf(ctx context.Context, tenants []string, end time.Time) (errs []error, err error) {
	for more := true; more; {
		until := w.Records.now().Add(garbageRetry) // what is claimed is to be done before it is due again
		list, failed, err := w.claim(ctx, tenants, claims{set: "garbage", until: until})
		if errs = append(errs, failed...); err != nil {
			return errs, err
		}
		errs = append(errs, w.deleteGarbage(ctx, list, until))
		more = len(list) >= page && time.Now().Before(end) && ctx.Err() == nil
	}
	return errs, nil
}

// deleteGarbage deletes the objects of what was claimed until then.
func (w *Sweeper) deleteGarbage(ctx context.Context, list []due, until time.Time) error {
	errs := make([]error, len(list))
	var some errgroup.Group
	some.SetLimit(cmp.Or(w.garbageAtOnce, garbageAtOnce))
	for i, d := range list {
		if ctx.Err() != nil {
			break
		}
		some.Go(func() error {
			batchOf, _ := job.TenantOfBatch(d.id)
			runOf, _ := job.TenantOfRun(d.id)
			sessionOf, _ := job.TenantOfSession(d.id)
			switch {
			case strings.HasPrefix(d.id, uploadPrefix):
				errs[i] = w.sweepUpload(ctx, d.tenant, d.id, until)
			case batchOf == d.tenant:
				errs[i] = w.sweepExpired(ctx, d.tenant, d.id, batchKey(d.tenant, d.id))
			case sessionOf == d.tenant:
				errs[i] = w.sweepExpired(ctx, d.tenant, d.id, sessionKey(d.tenant, d.id))
			case runOf == d.tenant:
				errs[i] = w.sweepExpired(ctx, d.tenant, d.id, runKey(d.tenant, d.id))
			case ofTenant(d.id, d.tenant):
				errs[i] = w.sweepObjects(ctx, d.tenant, d.id)
			default:
				errs[i] = w.Records.rdb.ZRem(ctx, garbageKey(d.tenant), d.id).Err()
			}
			return nil
		})
	}
	_ = some.Wait() // errs has them all
	return errors.Join(errs...)
}

// sweepObjects deletes what is garbage of one job by now, and says when to look again.
func (w *Sweeper) sweepObjects(ctx context.Context, tenant, id string) error {
	j, err := w.Records.Get(ctx, id)
	gone := errors.Is(err, job.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	if !gone && !j.State.Final() {
		// Its end sets a time of its own. It may have just done so, hence not a removal.
		return w.reschedule(ctx, garbageKey(tenant), id, w.Records.now().Add(announceDelay))
	}
	if held, err := w.Records.Held(ctx); err != nil || held {
		return err // it is claimed, so it is due again in a while
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
	if gone {
		return w.Records.forget(ctx, tenant, id, time.Time{})
	}
	err = recheckKeptScript.Run(ctx, w.Records.rdb, tenant, script.Args{"id": id, "due": w.sweepAgain(j)}).Err()
	if err != nil {
		return fmt.Errorf("say when to sweep %s again: %w", id, err)
	}
	return nil
}

// sweepExpired forgets a batch, run or session, which has no objects, once its record has expired.
func (w *Sweeper) sweepExpired(ctx context.Context, tenant, id, record string) error {
	there, err := w.Records.rdb.Exists(ctx, record).Result()
	switch {
	case err != nil:
		return fmt.Errorf("look for record of %s: %w", id, err)
	case there > 0: // Redis has another clock
		return w.reschedule(ctx, garbageKey(tenant), id, w.Records.now().Add(expiredDelay))
	}
	return w.Records.forget(ctx, tenant, id, time.Time{})
}

// sweepAgain is when a job that has ended is to be swept once more.
func (w *Sweeper) sweepAgain(j Record) time.Time {
	now := w.Records.now()
	if second := j.Finished.Add(secondSweepDelay); now.Before(second) {
		return second
	}
	expired := j.Expires().Add(expiredDelay)
	if expired.Before(now) { // Redis has another clock
		expired = now.Add(expiredDelay)
	}
	return expired
}
