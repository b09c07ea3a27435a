package worker

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// processStart is when this process started.
var processStart = time.Now().UTC()

var errRunning = errors.New("this worker runs the job already")

// beginRun notes that this worker runs the job, or holds the session. It fails with errRunning, errDrained or
// errPaused.
func (w *Worker) beginRun(run queue.Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return errDrained
	}
	if w.paused() != nil {
		return errPaused
	}
	if _, running := w.active[run]; running {
		return errRunning
	}
	w.active[run] = struct{}{}
	w.busy.Add(1)
	return nil
}

func (w *Worker) endRun(run queue.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, run)
	w.busy.Done()
}

const (
	// recheckInterval is how often a run reads its record without being told to: Redis
	// delivers a message at most once.
	recheckInterval = 10 * time.Second
	recheckRetry    = time.Second
)

// watch returns a context that ends with errCanceled when somebody cancels the job, with
// errDeadline at its deadline, and with errLost when the job was taken from this worker. It
// starts events when somebody watches the job. It reads the record when wake says so, and first after a while.
func (w *Worker) watch(life context.Context, j record.Record, wake <-chan struct{}, events *eventPublisher, first time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(life)
	forget := func() {}
	if !j.Deadline.IsZero() {
		ctx, forget = context.WithDeadlineCause(ctx, j.Deadline, errDeadline)
	}
	if j.CancelRequested {
		cancel(errCanceled)
	}
	if j.Watched(time.Now()) {
		events.start(&w.publishers)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		recheck := time.NewTimer(first)
		defer recheck.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			case <-recheck.C:
			}
			now, err := w.recheckJob(ctx, j)
			if errors.Is(err, errCanceled) || errors.Is(err, errLost) {
				cancel(err)
				return
			}
			if now.Watched(time.Now()) {
				events.start(&w.publishers)
			}
			recheck.Reset(recheckInterval)
			if err != nil && ctx.Err() == nil {
				w.Log.Warn("could not read whether the job was cancelled, trying again", "job_id", j.ID, "error", err)
				recheck.Reset(recheckRetry)
			}
		}
	})
	return ctx, func() { cancel(nil); forget(); watch.Wait() }
}

// recheckJob returns the record of j as it is now. It fails with errCanceled or errLost if the
// run of j is to end.
func (w *Worker) recheckJob(ctx context.Context, j record.Record) (record.Record, error) {
	now, err := w.Records.Get(ctx, j.ID)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return now, errLost
	case err != nil:
		return now, err
	case now.Epoch != j.Epoch || now.State != job.Running || now.Worker != w.ID:
		return now, errLost
	case now.CancelRequested:
		return now, errCanceled
	}
	return now, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
