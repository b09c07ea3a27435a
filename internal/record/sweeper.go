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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

const (
	reapInterval  = 2 * time.Second
	sweepInterval = 5 * time.Second
	// lostAfter is how long a worker's beat may not name a job it runs: two beats and a bit.
	lostAfter = 12 * time.Second
	// lookAgain is how soon what has a task is looked at again: asynq's lease is 30 s,
	// and a task whose holder died is to be found within a minute.
	lookAgain = 15 * time.Second
	// A loser that stalled may write once more after its job ended.
	secondSweepDelay = 2 * time.Minute
	secondSweep      = "#2"
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
	Log           *slog.Logger

	// tenant → "<id> <epoch>" → since when no beat names it
	unnamed map[string]map[string]time.Time
}

// Run sweeps until ctx ends.
func (w *Sweeper) Run(ctx context.Context) {
	reap, sweep := time.NewTicker(reapInterval), time.NewTicker(sweepInterval)
	defer reap.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reap.C:
			w.pass(ctx, "reap", w.reap)
		case <-sweep.C:
			w.pass(ctx, "sweep open", w.sweepOpen)
			w.pass(ctx, "sweep outbox", w.sweepOutbox)
			w.pass(ctx, "sweep garbage", w.sweepGarbage)
		}
	}
}

// pass runs one step for every tenant. What fails is logged and tried again next time.
func (w *Sweeper) pass(ctx context.Context, name string, step func(context.Context, string) error) {
	tenants, err := w.Records.rdb.SMembers(ctx, tenantsKey).Result()
	for _, tenant := range tenants {
		err = errors.Join(err, step(ctx, tenant))
	}
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("sweeper: a pass failed, it is tried again", "pass", name, "error", err)
	}
}

// reap takes back the jobs that no beat names.
func (w *Sweeper) reap(ctx context.Context, tenant string) error {
	running, err := w.Records.rdb.HGetAll(ctx, runningKey(tenant)).Result()
	if err != nil {
		return fmt.Errorf("list running jobs: %w", err)
	}
	named := map[string]bool{}
	asked := map[string]bool{}
	lost := map[string]time.Time{} // what is left of w.unnamed[tenant]
	for id, at := range running {
		epoch, worker, _ := strings.Cut(at, " ")
		if !asked[worker] {
			asked[worker] = true
			beat, _, err := w.Records.Worker(ctx, worker)
			if err != nil {
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
		n, err := strconv.Atoi(epoch)
		if err != nil {
			return fmt.Errorf("read running job %s: %w", id, err)
		}
		if err := w.takeBack(ctx, id, n, worker); err != nil {
			return err
		}
		delete(lost, k)
	}
	if w.unnamed == nil {
		w.unnamed = map[string]map[string]time.Time{}
	}
	w.unnamed[tenant] = lost
	return nil
}

func (w *Sweeper) takeBack(ctx context.Context, id string, epoch int, worker string) error {
	answer, err := w.Records.Requeue(ctx, id, epoch, worker, true, 0)
	if err != nil {
		return err
	}
	w.Log.Warn("job of a lost worker taken back", "job_id", id, "worker", worker, "epoch", epoch, "answer", string(answer))
	switch answer {
	case RequeueCanceled:
		return w.Records.EndWithout(ctx, id, epoch, job.Canceled, nil)
	case RequeueExhausted:
		return w.Records.EndWithout(ctx, id, epoch, job.InternalError, &job.Error{
			Code:    "worker_lost",
			Message: fmt.Sprintf("the worker was lost while it ran this job, %d times", w.Records.maxAttempts),
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
	for _, id := range ids {
		j, err := w.Records.Get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			if err := w.Records.rdb.ZRem(ctx, openKey(tenant), id).Err(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := w.Records.rescue(ctx, runTask(id, j.Epoch, j.Priority, time.Time{}), orphans); err != nil {
			return err
		}
		if err := w.postpone(ctx, openKey(tenant), id); err != nil {
			return err
		}
	}
	return nil
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
	for _, did := range ids {
		d, err := w.Records.GetDelivery(ctx, tenant, did)
		if errors.Is(err, ErrNoDelivery) {
			if err := w.Records.rdb.ZRem(ctx, outboxKey(tenant), did).Err(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := w.Records.rescue(ctx, deliverTask(tenant, did, d.Attempt, time.Time{}), orphans); err != nil {
			return err
		}
		if err := w.postpone(ctx, outboxKey(tenant), did); err != nil {
			return err
		}
	}
	return nil
}

// sweepGarbage deletes the objects that no record points to.
func (w *Sweeper) sweepGarbage(ctx context.Context, tenant string) error {
	entries, err := w.due(ctx, garbageKey(tenant), 0)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id, again := strings.CutSuffix(entry, secondSweep)
		keep := 0
		j, err := w.Records.Get(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound): // announced and never created
		case err != nil:
			return err
		case !j.State.Final(): // its end puts it here again where that is needed
			if err := w.Records.rdb.ZRem(ctx, garbageKey(tenant), entry).Err(); err != nil {
				return err
			}
			continue
		case j.ResultRef != "":
			keep = j.Epoch
		}
		if err := w.DeleteObjects(ctx, tenant, id, keep); err != nil {
			return fmt.Errorf("delete losing objects of %s: %w", id, err)
		}
		pipe := w.Records.rdb.TxPipeline()
		pipe.ZRem(ctx, garbageKey(tenant), entry)
		if !again {
			pipe.ZAdd(ctx, garbageKey(tenant), redis.Z{Score: float64(ms(w.Records.now().Add(secondSweepDelay))), Member: id + secondSweep})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
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

// postpone looks at id again later, unless it has left the set since.
func (w *Sweeper) postpone(ctx context.Context, key, id string) error {
	return w.Records.rdb.ZAddXX(ctx, key, redis.Z{Score: float64(ms(w.Records.now().Add(lookAgain))), Member: id}).Err()
}
