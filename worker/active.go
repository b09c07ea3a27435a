package worker

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// started is when this process began.
var started = time.Now().UTC()

// sandboxCostMB is what a sandbox takes besides its job: 26–60 MB were measured
// (facts.md: sentry, gofer, conmon).
const sandboxCostMB = 48

// begin notes that this worker runs the job; false if it does already.
func (w *Worker) begin(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, running := w.active[id]; running {
		return false
	}
	w.active[id] = struct{}{}
	w.busy.Add(1)
	return true
}

func (w *Worker) end(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, id)
	w.busy.Done()
}

// untilCanceled returns a context that ends with errCanceled when somebody cancels
// the job. The record is read again after the subscription (re)starts, because a
// message that was published before is lost.
func (w *Worker) untilCanceled(life context.Context, j record.Job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(life)
	if j.CancelRequested {
		cancel(errCanceled)
	}
	woken, forget := w.cancels.Wait(j.ID)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-woken:
			}
			if now, err := w.Records.Get(ctx, j.ID); err == nil && now.CancelRequested && now.Epoch == j.Epoch {
				cancel(errCanceled)
			} else if err != nil && ctx.Err() == nil {
				w.Log.Warn("could not see whether the job was cancelled", "job_id", j.ID, "error", err)
			}
		}
	})
	return ctx, func() { cancel(nil); watch.Wait(); forget() }
}

// admit waits until there is memory for the job's sandbox.
func (w *Worker) admit(ctx context.Context, l job.Limits) (release func(), err error) {
	need := min(l.MemoryMB+sandboxCostMB, w.MemoryMB) // a job above the whole budget runs alone
	if err := w.memory.Acquire(ctx, need); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { w.memory.Release(need) }, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
