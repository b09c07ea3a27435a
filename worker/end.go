package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// cleanUpTimeout bounds how long a job's objects may take to be deleted.
	cleanUpTimeout = 10 * time.Second
)

// persist calls do until it succeeds, for as long as it takes Redis to come back: while
// this worker lives, and its Patience longer. Until then the worker's beats name the job, so
// nobody takes it away: its result is stored already. An error for which lost is true is final.
func (w *Worker) persist(life context.Context, id string, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(life))
	defer cancel()
	defer context.AfterFunc(life, func() {
		select {
		case <-time.After(w.Patience):
			cancel()
		case <-ctx.Done():
		}
	})()
	var warn await.Rarely
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := do(ctx)
		if err == nil || lost(err) || ctx.Err() != nil {
			return err
		}
		if warn.Now() {
			w.Log.Warn("the record could not be written, trying again", "job_id", id, "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// endRecord ends the record. nil means that e is the job's end, even if it already was and only
// the answer got lost.
func (w *Worker) endRecord(life context.Context, j record.Record, e record.Ending) error {
	return w.persist(life, j.ID, func(ctx context.Context) error {
		err := w.Records.End(ctx, j, e)
		if !errors.Is(err, job.ErrEnded) {
			return err
		}
		now, getErr := w.Records.Get(ctx, j.ID)
		switch {
		case getErr != nil && !errors.Is(getErr, job.ErrNotFound):
			return getErr
		case getErr == nil && now.Epoch == j.Epoch && now.Worker == w.ID && now.ResultRef == e.ResultRef && now.State == e.Status:
			return nil
		}
		return err
	})
}

// lost reports whether err says that the job or session is another worker's, or has another end.
func lost(err error) bool {
	return slices.ContainsFunc(
		[]error{record.ErrStale, job.ErrEnded, job.ErrNotFound, record.ErrTaken, job.ErrSessionEnded, job.ErrNoSession},
		func(final error) bool { return errors.Is(err, final) })
}

// afterEnd logs what endRecord came to, and deletes what this try stored if it is certain that
// no record points to it.
func (w *Worker) afterEnd(ctx context.Context, j record.Record, status job.Status, err error) {
	log := w.Log.With("job_id", j.ID, "epoch", j.Epoch)
	switch {
	case err == nil:
		log.Info("job ended", "status", status)
	case lost(err):
		log.Info("job was another worker's by the time it ended here", "reason", err)
		w.discard(ctx, j)
	default:
		log.Error("job could not be ended, the reaper will take it back", "error", err)
	}
}

// requeueOrEnd is for a job that this worker could not bring to an end. The job ends as canceled
// if that was asked or its deadline has passed. It goes back to the queue at no cost when the
// worker is shutting down or can run no job at all. Otherwise it costs one of its attempts. What
// the job stored is deleted last: it may take long, and nobody has to wait for it.
func (w *Worker) requeueOrEnd(life context.Context, j record.Record, cause error, used spent) {
	switch {
	case errors.Is(cause, errLost):
		w.Log.Info("job was taken from this worker", "job_id", j.ID, "epoch", j.Epoch)
	case errors.Is(cause, errCanceled):
		w.endUnrun(life, j, job.Canceled, nil, used)
	case errors.Is(cause, errDeadline):
		w.endUnrun(life, j, job.Canceled, record.ErrDeadline, used)
	default:
		w.requeue(life, j, cause)
	}
	w.discard(context.WithoutCancel(life), j)
}

func (w *Worker) requeue(life context.Context, j record.Record, cause error) {
	log := w.Log.With("job_id", j.ID, "epoch", j.Epoch)
	cost, delay := w.cost(life, j, cause)
	switch cost {
	case record.CostAttempt:
		log.Warn("job failed on an internal error", "attempt", j.Attempts, "error", cause)
	case record.CostOutage:
		log.Warn("job met an outage", "error", cause)
	case record.CostNothing:
		log.Info("job goes back", "reason", cause)
	}
	var answer record.Requeued
	err := w.persist(life, j.ID, func(ctx context.Context) (err error) {
		answer, err = w.Records.Requeue(ctx, j.ID, j.Epoch, w.ID, cost, delay)
		return err
	})
	if err != nil {
		log.Warn("job could not be handed back, the reaper will", "error", err)
		return
	}
	log.Info("job handed back", "answer", string(answer))
	switch answer {
	case record.RequeueOK, record.RequeueStale:
	case record.RequeueCanceled:
		w.endUnrun(life, j, job.Canceled, nil, spent{})
	case record.RequeueExhausted:
		w.endUnrun(life, j, job.InternalError, &job.Error{Code: job.CodeUnavailable, Message: publicMessage(cause)}, spent{})
	}
}

const (
	minOutageDelay = 5 * time.Second
	maxOutageDelay = 5 * time.Minute
)

// cost returns what the failure costs the job, and the delay before it is tried again, in which
// whatever failed can come back.
func (w *Worker) cost(life context.Context, j record.Record, cause error) (record.Cost, time.Duration) {
	if errors.Is(cause, errDrained) {
		return record.CostNothing, 0
	}
	if errors.Is(cause, errHeld) {
		if time.Since(j.Ready()) > mostPatience {
			w.sessions.letJobsFirst()
		}
		return record.CostNothing, heldDelay
	}
	if w.noLongerOffers(life, j, cause) {
		return record.CostNothing, 0
	}
	outage := w.outage(life, j.Started)
	switch {
	case life.Err() != nil:
		return record.CostNothing, 0
	case outage == nil:
		return record.CostAttempt, time.Duration(5*j.Attempts*j.Attempts*j.Attempts) * time.Second // 5 s, then 40 s
	case j.OutageSince.IsZero():
		return record.CostOutage, minOutageDelay
	}
	return record.CostOutage, min(max(time.Since(j.OutageSince), minOutageDelay), maxOutageDelay)
}

// spent is what a job has used that has no result: for how long it ran before it was canceled.
type spent struct {
	usage    job.Usage
	memoryMB int64
}

// endUnrun ends a job that did not run to its end, and returns how: only the record holds its result. What it has used until then counts.
func (w *Worker) endUnrun(life context.Context, j record.Record, status job.Status, problem *job.Error, used spent) record.Ending {
	if status == job.Canceled && problem == nil {
		if now, err := w.Records.Get(context.WithoutCancel(life), j.ID); err == nil {
			problem = now.CancelReason // said after the job was started
		}
	}
	result := j.Failure(status, problem, time.Now())
	var metered *record.Metered
	if used.usage.WallMS > 0 {
		result.Usage = used.usage
		metered = w.Records.Meter(&result, used.memoryMB)
	}
	b, err := job.Marshal(result)
	ending := record.Ending{Status: status, Result: b, Dirty: true, Metered: metered}
	if err == nil {
		err = w.endRecord(life, j, ending)
	}
	switch {
	case err == nil:
		w.Log.Info("job ended", "job_id", j.ID, "status", status)
	case lost(err):
		w.Log.Info("job was another worker's by the time it ended here", "job_id", j.ID, "epoch", j.Epoch, "reason", err)
	default:
		w.Log.Error("job could not be ended, the reaper will", "job_id", j.ID, "status", status, "error", err)
	}
	return ending
}

// discard deletes what this epoch of the job stored. What it can't delete in time, the
// sweeper finds.
func (w *Worker) discard(ctx context.Context, j record.Record) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	if now, err := w.Records.Get(ctx, j.ID); err == nil && now.Epoch == j.Epoch && now.Worker != w.ID {
		return // a Redis that lost its last writes gave our epoch, and so our prefix, to another worker
	}
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err == nil {
		_, err = w.Objects.Sweep(ctx, keys.EpochPrefix(int64(j.Epoch)), nil)
	}
	if err != nil {
		w.Log.Warn("objects of a failed try are left to the sweeper", "job_id", j.ID, "epoch", j.Epoch, "error", err)
	}
}

// publicMessage tells a tenant what failed, without the names of our hosts.
func publicMessage(cause error) string {
	var je *job.Error
	if errors.As(cause, &je) {
		return je.Message
	}
	return "Glovebox could not run this job; its operator finds the reason in the worker's log by the job's id"
}
