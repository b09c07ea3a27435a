package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sweepInterval = 5 * time.Second
	listInterval  = time.Minute
	// recheckDelay is how soon what has a task is looked at again: asynq's lease is 30 s,
	// and a task whose holder died is to be found within a minute.
	recheckDelay = 15 * time.Second
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
	// Fire looks at schedules whose time has come. Defaults to leaving schedules alone.
	Fire Firer
	// Advance looks at a run of a pipeline in which something has ended. Defaults to leaving runs alone.
	Advance func(ctx context.Context, id string, now time.Time) error
	Log     *slog.Logger

	garbageAtOnce int // 0 for the constant

	// reap's own: "<id> <epoch>" → since when no beat names it.
	unnamed map[string]time.Time
	// findRuns' own: how far it has come in the list of each tenant that has more runs than one look is for.
	foundTo map[string]Position
}

// pass is a step for all tenants that is made again and again.
type pass struct {
	name     string
	interval time.Duration
	step     func(ctx context.Context, tenants ...string) error
	// shared is one that each process makes for all of them. Another begins to help only
	// where that takes longer than the interval: it finds what is not claimed.
	shared bool
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
	schedulePass = "fire schedules"
	runPass      = "advance runs"
	findRunsPass = "find runs"
	sessionPass  = "sweep sessions"
	approvalPass = "sweep approvals"
)

// Passes lists what Observer.PassEnded and PassFailed may be told of.
func Passes() []string {
	return []string{reapPass, openPass, releasePass, deadlinePass, outboxPass, garbagePass, batchPass, listPass, schedulePass, sessionPass, approvalPass, runPass, findRunsPass}
}

func (w *Sweeper) passes() []pass {
	return []pass{
		{reapPass, reapInterval, w.reap, false}, // it goes by what this process sees
		{releasePass, dueInterval, w.release, true},
		{deadlinePass, dueInterval, w.sweepDeadlines, true},
		{approvalPass, dueInterval, w.sweepApprovals, true},
		{openPass, sweepInterval, w.sweepOpen, true},
		{outboxPass, sweepInterval, w.sweepOutbox, true},
		{garbagePass, sweepInterval, w.sweepGarbage, true},
		{batchPass, sweepInterval, w.sweepBatches, true},
		{listPass, listInterval, w.sweepListed, true},
		{schedulePass, dueInterval, w.fireSchedules, true},
		{runPass, dueInterval, w.advanceRuns, true},
		{findRunsPass, listInterval, w.findRuns, true},
		{sessionPass, sweepInterval, w.sweepSessions, true},
	}
}

// Run sweeps until ctx ends. Each step has a loop of its own: a bucket that hangs holds
// up the deletion of garbage, and must not hold up the jobs of lost workers.
func (w *Sweeper) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, p := range w.passes() {
		loops.Go(func() {
			tick := time.NewTicker(p.interval)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					w.turn(ctx, p)
				}
			}
		})
	}
	loops.Go(func() { w.followRuns(ctx) })
	loops.Wait()
}

// turn makes a pass, unless it is shared and another process has begun it within the interval.
func (w *Sweeper) turn(ctx context.Context, p pass) {
	if p.shared {
		// A little less than the interval, so that whoever made the last one makes the next.
		mine, err := w.Records.rdb.SetNX(ctx, passKey(p.name), 1, p.interval*9/10).Result()
		if err == nil && !mine {
			w.Records.observer.PassEnded(p.name, 0)
			return
		}
	}
	w.pass(ctx, p.name, p.step)
}

// pass makes one step for every tenant. What fails is logged and tried again next time.
func (w *Sweeper) pass(ctx context.Context, name string, step func(context.Context, ...string) error) {
	began := time.Now()
	tenants, err := w.Records.rdb.SMembers(ctx, tenantsKey).Result()
	if err == nil {
		slices.Sort(tenants)
		w.Records.tenants.listed.Store(&tenants)
		err = step(ctx, tenants...)
	}
	w.Records.observer.PassEnded(name, time.Since(began))
	if err != nil && ctx.Err() == nil {
		w.Records.observer.PassFailed(name)
		w.Log.Warn("sweeper: a pass failed, it is tried again", "pass", name, "error", err)
	}
}

// perTenant is a step that takes one tenant after the other.
func perTenant(step func(context.Context, string) error) func(context.Context, ...string) error {
	return func(ctx context.Context, tenants ...string) error {
		var errs []error
		for _, tenant := range tenants {
			errs = append(errs, step(ctx, tenant))
		}
		return errors.Join(errs...)
	}
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
		if err := w.reschedule(ctx, key, id, w.Records.now().Add(again)); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (w *Sweeper) due(ctx context.Context, key string) ([]string, error) {
	ids, err := w.Records.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: key, ByScore: true, Start: "-inf", Stop: ms(w.Records.now()), Count: page,
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list what is due in %s: %w", key, err)
	}
	return ids, nil
}

// reschedule says when to look at id again, unless it has left the set since, or is to be
// looked at later than that.
func (w *Sweeper) reschedule(ctx context.Context, key, id string, at time.Time) error {
	later := redis.ZAddArgs{XX: true, GT: true, Members: []redis.Z{{Score: float64(ms(at)), Member: id}}}
	if err := w.Records.rdb.ZAddArgs(ctx, key, later).Err(); err != nil {
		return fmt.Errorf("put off %s in %s: %w", id, key, err)
	}
	return nil
}
