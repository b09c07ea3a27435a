package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

const (
	reapInterval = 2 * time.Second
	// lostAfter is how long a worker's beat may not name a job it runs: two beats and a bit.
	lostAfter = 12 * time.Second
)

// runningJob is a job or session that a worker has, as its tenant's running or held says.
type runningJob struct{ tenant, id, epoch, worker string }

func (h runningJob) try() string { return h.id + " " + h.epoch }

// reap takes back the jobs that no beat has named for lostAfter.
func (w *Sweeper) reap(ctx context.Context, tenants ...string) error {
	if err := w.Records.writes(ctx); err != nil {
		return err
	}
	jobs, errs, err := w.running(ctx, tenants)
	if err != nil {
		return err
	}
	beats, unread, err := w.beats(ctx, jobs)
	if err != nil {
		return err
	}
	errs = append(errs, unread...)
	for _, h := range w.lost(jobs, beats) {
		if ctx.Err() != nil || w.Records.uptime.since().After(w.unnamed[h.try()]) {
			break // something stood still meanwhile
		}
		if err := w.takeBack(ctx, h); err != nil {
			errs = append(errs, fmt.Errorf("take back job %s: %w", h.id, err))
			continue
		}
		delete(w.unnamed, h.try())
	}
	return errors.Join(errs...)
}

// running lists the jobs and sessions that workers have, in the order of their ids. errs are of tenants
// whose jobs can't be read.
func (w *Sweeper) running(ctx context.Context, tenants []string) (jobs []runningJob, errs []error, err error) {
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		for _, key := range []func(tenant string) string{runningKey, heldKey} {
			answers, err := redisconn.Ask(ctx, w.Records.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.MapStringStringCmd {
				return pipe.HGetAll(ctx, key(tenant))
			})
			if err != nil {
				return nil, nil, fmt.Errorf("list running jobs: %w", err)
			}
			for i, a := range answers {
				if a.Err() != nil {
					errs = append(errs, fmt.Errorf("list running jobs of tenant %s: %w", some[i], a.Err()))
				}
				for id, at := range a.Val() {
					epoch, worker, _ := strings.Cut(at, " ")
					jobs = append(jobs, runningJob{some[i], id, epoch, worker})
				}
			}
		}
	}
	slices.SortFunc(jobs, func(a, b runningJob) int { return strings.Compare(a.id, b.id) })
	return jobs, errs, nil
}

// beats reads what the workers of these jobs said last; a worker that says nothing names no
// job. One whose beat can't be read is left out.
func (w *Sweeper) beats(ctx context.Context, jobs []runningJob) (beats map[string]fleet.Worker, errs []error, err error) {
	ids := map[string]bool{}
	for _, h := range jobs {
		ids[h.worker] = true
	}
	return w.Records.Fleet.Workers(ctx, slices.Sorted(maps.Keys(ids)))
}

// lost lists the jobs that no beat has named for lostAfter, and notes since when the
// others are not named.
func (w *Sweeper) lost(jobs []runningJob, beats map[string]fleet.Worker) (lost []runningJob) {
	named := map[string]bool{}
	for worker, beat := range beats {
		for _, id := range beat.Jobs {
			named[worker+" "+id] = true
		}
	}
	unnamed, now := map[string]time.Time{}, w.Records.now()
	for _, h := range jobs {
		if named[h.worker+" "+h.id] {
			continue
		}
		since, known := w.unnamed[h.try()]
		if !known || w.Records.uptime.since().After(since) {
			since = now
		}
		unnamed[h.try()] = since
		if _, read := beats[h.worker]; read && now.Sub(since) >= lostAfter {
			lost = append(lost, h)
		}
	}
	w.unnamed = unnamed
	return lost
}

func (w *Sweeper) takeBack(ctx context.Context, h runningJob) error {
	if of, ok := job.TenantOfSession(h.id); ok && of == h.tenant {
		return w.endLostSession(ctx, h)
	}
	if !ofTenant(h.id, h.tenant) { // no job's place in the tenant's window
		pipe := w.Records.rdb.Pipeline()
		pipe.HDel(ctx, runningKey(h.tenant), h.id)
		pipe.HDel(ctx, heldKey(h.tenant), h.id)
		_, err := pipe.Exec(ctx)
		return err
	}
	id, worker := h.id, h.worker
	epoch, err := strconv.Atoi(h.epoch)
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
		return w.Records.EndUnrun(ctx, id, epoch, job.Canceled, nil)
	case RequeueExhausted:
		return w.Records.EndUnrun(ctx, id, epoch, job.InternalError, &job.Error{
			Code:    job.CodeWorkerLost,
			Message: fmt.Sprintf("none of %d tries at this job came to an end; the last one lost its worker", w.Records.maxAttempts),
		})
	}
	return nil
}

// EndUnrun ends a job that no worker brought to an end: as canceled, or as
// internal_error with the reason. Nothing of it stays in S3.
func (s *Store) EndUnrun(ctx context.Context, id string, epoch int, status job.Status, problem *job.Error) error {
	return s.endUnrun(ctx, id, epoch, status, problem, 0)
}

// endUnrun is EndUnrun. If the job runs, in memoryMB MiB where that is not 0, what it has used until now counts.
func (s *Store) endUnrun(ctx context.Context, id string, epoch int, status job.Status, problem *job.Error, memoryMB int64) error {
	j, err := s.Get(ctx, id)
	if err != nil && (j.ID == "" || !errors.Is(err, ErrUnreadable)) { // of one that can't be read there is enough to end it
		return err
	}
	if status == job.Canceled && problem == nil {
		problem = j.CancelReason
	}
	result := j.Failure(status, problem, s.now())
	var metered *Metered
	if memoryMB > 0 && j.State == job.Running && !j.Started.IsZero() {
		result.Usage.WallMS = max(s.now().Sub(j.Started).Milliseconds(), 1)
		metered = s.Meter(&result, memoryMB)
	}
	b, err := job.Marshal(result)
	if err != nil {
		return err
	}
	j.Epoch = epoch
	err = s.End(ctx, j, Ending{Status: status, Result: b, Dirty: true, Metered: metered})
	if errors.Is(err, job.ErrEnded) || errors.Is(err, ErrStale) {
		return nil // somebody else was quicker
	}
	return err
}
