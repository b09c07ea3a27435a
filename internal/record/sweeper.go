package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

const (
	reapInterval  = 2 * time.Second
	sweepInterval = 5 * time.Second
	listInterval  = time.Minute
	// lostAfter is how long a worker's beat may not name a job it runs: two beats and a bit.
	lostAfter = 12 * time.Second
	// lookAgain is how soon what has a task is looked at again: asynq's lease is 30 s,
	// and a task whose holder died is to be found within a minute.
	lookAgain = 15 * time.Second
	// A loser that stalled may write once more after its job ended.
	secondSweepDelay = 2 * time.Minute
	// expiredDelay is how long after its record a job's objects go.
	expiredDelay = time.Minute
	// A job whose objects can't be deleted is put off, so that others get their turn.
	garbageRetry = time.Minute
	// garbageAtOnce is how many jobs' objects are deleted at once: each takes some three
	// requests, and as many jobs expire as there once were.
	garbageAtOnce = 8
	// deleteTimeout bounds the deletion of one job's objects.
	deleteTimeout = time.Minute
	// page is how many entries one pass over a sorted set takes.
	page = 500
)

// Sweeper finds what fell between two steps and puts it right: jobs whose worker is
// lost, records without a task, outbox entries without one, objects without a record.
// Any number of them may run at once.
type Sweeper struct {
	Records *Store
	// DeleteObjects deletes every object and unfinished upload of the job but those
	// of epoch keep; 0 keeps none.
	DeleteObjects func(ctx context.Context, tenant, id string, keep int) error
	// DeleteUpload deletes an upload of the tenant, if it is there.
	DeleteUpload func(ctx context.Context, tenant, sha256 string) error
	Log          *slog.Logger

	// reap's own: tenant → "<id> <epoch>" → since when no beat names it, and tenant →
	// when reap last saw what is running.
	unnamed map[string]map[string]time.Time
	looked  map[string]time.Time
}

// What the passes are called.
const (
	reapPass     = "reap"
	openPass     = "sweep open"
	releasePass  = "release"
	deadlinePass = "sweep deadlines"
	outboxPass   = "sweep outbox"
	garbagePass  = "sweep garbage"
	batchPass    = "sweep batches"
	listPass     = "sweep list"
)

// Passes lists what Observer.PassFailed may be told of.
func Passes() []string {
	return []string{reapPass, openPass, releasePass, deadlinePass, outboxPass, garbagePass, batchPass, listPass}
}

// Run sweeps until ctx ends. Each step has a loop of its own: a bucket that hangs holds
// up the deletion of garbage, and must not hold up the jobs of lost workers.
func (w *Sweeper) Run(ctx context.Context) {
	var loops sync.WaitGroup
	every := func(interval time.Duration, pass func(context.Context)) {
		loops.Go(func() {
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					pass(ctx)
				}
			}
		})
	}
	every(reapInterval, func(ctx context.Context) { w.pass(ctx, reapPass, w.reap) })
	every(dueInterval, w.passDue)
	every(sweepInterval, func(ctx context.Context) { w.pass(ctx, openPass, w.sweepOpen) })
	every(sweepInterval, func(ctx context.Context) { w.pass(ctx, outboxPass, w.sweepOutbox) })
	every(sweepInterval, func(ctx context.Context) { w.pass(ctx, garbagePass, w.sweepGarbage) })
	every(sweepInterval, func(ctx context.Context) { w.pass(ctx, batchPass, w.sweepBatches) })
	every(listInterval, func(ctx context.Context) { w.pass(ctx, listPass, w.sweepListed) })
	every(listInterval, func(ctx context.Context) { w.pass(ctx, listPass, w.sweepListedBatches) })
	loops.Wait()
}

// pass runs one step for every tenant.
func (w *Sweeper) pass(ctx context.Context, name string, step func(context.Context, string) error) {
	tenants, err := w.Records.rdb.SMembers(ctx, tenantsKey).Result()
	w.visit(ctx, name, tenants, err, step)
}

// visit runs one step for these tenants. What fails is logged and tried again next time,
// also that the tenants could not be listed, or not all of them.
func (w *Sweeper) visit(ctx context.Context, name string, tenants []string, err error, step func(context.Context, string) error) {
	for _, tenant := range tenants {
		err = errors.Join(err, step(ctx, tenant))
	}
	if err != nil && ctx.Err() == nil {
		w.Records.observer.PassFailed(name)
		w.Log.Warn("sweeper: a pass failed, it is tried again", "pass", name, "error", err)
	}
}

// reap takes back the jobs that no beat names.
func (w *Sweeper) reap(ctx context.Context, tenant string) error {
	running, err := w.Records.rdb.HGetAll(ctx, runningKey(tenant)).Result()
	if err != nil {
		return fmt.Errorf("list running jobs: %w", err)
	}
	if time.Since(w.looked[tenant]) > 2*reapInterval {
		// Redis or this process stood still: that time says nothing about a worker.
		delete(w.unnamed, tenant)
	}
	named := map[string]bool{}
	asked := map[string]bool{}
	lost := map[string]time.Time{} // what is left of w.unnamed[tenant]
	var errs []error
	for id, at := range running {
		epoch, worker, _ := strings.Cut(at, " ")
		if !asked[worker] {
			asked[worker] = true
			beat, _, err := w.Records.Worker(ctx, worker)
			if err != nil {
				return err
			}
			if err := w.Records.noteSilent(ctx, beat); err != nil {
				return err
			}
			for _, id := range beat.Jobs {
				named[worker+" "+id] = true
			}
		}
		if named[worker+" "+id] {
			continue
		}
		k := id + " " + epoch
		since, known := w.unnamed[tenant][k]
		if !known {
			since = time.Now()
		}
		lost[k] = since
		if time.Since(since) < lostAfter {
			continue
		}
		if err := w.takeBack(ctx, id, epoch, worker); err != nil {
			errs = append(errs, fmt.Errorf("take back job %s: %w", id, err))
			continue
		}
		delete(lost, k)
	}
	if w.unnamed == nil {
		w.unnamed, w.looked = map[string]map[string]time.Time{}, map[string]time.Time{}
	}
	w.unnamed[tenant], w.looked[tenant] = lost, time.Now()
	return errors.Join(errs...)
}

func (w *Sweeper) takeBack(ctx context.Context, id, at, worker string) error {
	epoch, err := strconv.Atoi(at)
	if err != nil {
		return fmt.Errorf("read epoch: %w", err)
	}
	answer, err := w.Records.Requeue(ctx, id, epoch, worker, CostAttempt, 0)
	if err != nil {
		return err
	}
	w.Log.Warn("job of a lost worker taken back", "job_id", id, "worker", worker, "epoch", epoch, "answer", string(answer))
	if answer != RequeueStale {
		w.Records.observer.TakenBack()
	}
	switch answer {
	case RequeueCanceled:
		return w.Records.EndWithout(ctx, id, epoch, job.Canceled, nil)
	case RequeueExhausted:
		return w.Records.EndWithout(ctx, id, epoch, job.InternalError, &job.Error{
			Code:    "worker_lost",
			Message: fmt.Sprintf("none of %d tries at this job came to an end; the last one lost its worker", w.Records.maxAttempts),
		})
	}
	return nil
}

// EndWithout ends a job that no worker brought to an end: as canceled, or as
// internal_error with the reason. Nothing of it stays in S3.
func (s *Store) EndWithout(ctx context.Context, id string, epoch int, status job.Status, problem *job.Error) error {
	j, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	b, err := json.Marshal(j.Failure(status, problem, s.now()))
	if err != nil {
		return err
	}
	j.Epoch = epoch
	err = s.End(ctx, j, Ending{Status: status, Result: b, Dirty: true})
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrStale) {
		return nil // somebody else was quicker
	}
	return err
}

// sweepOpen makes sure that each job that has been queued for long has a task.
func (w *Sweeper) sweepOpen(ctx context.Context, tenant string) error {
	ids, err := w.due(ctx, openKey(tenant), 0)
	if err != nil || len(ids) == 0 {
		return err
	}
	orphans, err := w.Records.orphans(slices.Collect(maps.Keys(JobQueues()))...)
	if err != nil {
		return err
	}
	return w.each(ctx, openKey(tenant), ids, lookAgain, func(id string) error {
		j, err := w.Records.Get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return w.Records.rdb.ZRem(ctx, openKey(tenant), id).Err()
		}
		if err != nil {
			return err
		}
		return w.Records.rescue(ctx, runTask(id, j.Epoch, j.Priority, time.Time{}), orphans)
	})
}

// sweepOutbox makes sure that each delivery that is overdue has a task.
func (w *Sweeper) sweepOutbox(ctx context.Context, tenant string) error {
	ids, err := w.due(ctx, outboxKey(tenant), sweepInterval)
	if err != nil || len(ids) == 0 {
		return err
	}
	orphans, err := w.Records.orphans(DeliveryQueue)
	if err != nil {
		return err
	}
	return w.each(ctx, outboxKey(tenant), ids, lookAgain, func(did string) error {
		d, err := w.Records.GetDelivery(ctx, tenant, did)
		if errors.Is(err, ErrNoDelivery) {
			return w.Records.rdb.ZRem(ctx, outboxKey(tenant), did).Err()
		}
		if err != nil {
			return err
		}
		return w.Records.rescue(ctx, deliverTask(tenant, did, d.Attempt, time.Time{}), orphans)
	})
}

// each does something for each id, and then looks at it again later. One for which it
// fails must not keep the others from their turn, so it is put off like them.
func (w *Sweeper) each(ctx context.Context, key string, ids []string, again time.Duration, do func(id string) error) error {
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			break
		}
		if err := do(id); err != nil {
			errs = append(errs, fmt.Errorf("%s in %s: %w", id, key, err))
		}
		if err := w.look(ctx, key, id, w.Records.now().Add(again)); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (w *Sweeper) due(ctx context.Context, key string, overdue time.Duration) ([]string, error) {
	ids, err := w.Records.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: key, ByScore: true, Start: "-inf", Stop: ms(w.Records.now().Add(-overdue)), Count: page,
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list what is due in %s: %w", key, err)
	}
	return ids, nil
}

// look says when to look at id again, unless it has left the set since.
func (w *Sweeper) look(ctx context.Context, key, id string, at time.Time) error {
	if err := w.Records.rdb.ZAddXX(ctx, key, redis.Z{Score: float64(ms(at)), Member: id}).Err(); err != nil {
		return fmt.Errorf("put off %s in %s: %w", id, key, err)
	}
	return nil
}
