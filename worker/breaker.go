package worker

import (
	"context"
	"sync"
	"time"
)

const (
	// pingInterval is how often a worker that runs jobs pings Podman and S3, and
	// probeInterval how often a paused one probes whether it can go on.
	pingInterval  = 10 * time.Second
	probeInterval = 3 * time.Second
	// confirmDelay is the delay before a failed ping is repeated: one alone means nothing.
	confirmDelay = time.Second
)

// breaker pauses the worker: while it is open, the worker takes no jobs, as it could run none.
type breaker struct {
	// Both are for whom probeAlone has let in.
	probed time.Time // when the last probe began
	result error     // of that probe

	// switching is held while a pause begins or ends: the consumers run if the breaker is closed, and only then. It is not mu:
	// who asks whether the worker is paused must not wait until a server has started. Handlers may pause the worker: a server
	// doesn't wait for them as it starts or stops.
	switching sync.Mutex

	mu       sync.Mutex
	probing  chan struct{} // closed when the probe that goes on is over; nil: none does
	open     bool
	reason   error     // of the current pause, or the last one
	openedAt time.Time // when that began
	closedAt time.Time // when the last pause that is over ended
}

// openSince returns the reason of the current pause, or of the last one if that ended after began,
// or nil.
func (b *breaker) openSince(began time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open || b.closedAt.After(began) {
		return b.reason
	}
	return nil
}

// paused returns the reason of the current pause, or nil.
func (w *Worker) paused() error {
	w.breaker.mu.Lock()
	defer w.breaker.mu.Unlock()
	if !w.breaker.open {
		return nil
	}
	return w.breaker.reason
}

// outage returns the outage that may have failed a job that was started at began: this worker can
// run no jobs, and is paused, or could run none while the job ran. nil says that it can and could.
func (w *Worker) outage(ctx context.Context, began time.Time) error {
	failed := time.Now()
	b := &w.breaker
	if reason := b.openSince(began); reason != nil { // known: no need to wait for a probe that goes on
		return reason
	}
	over, err := b.probeAlone(ctx)
	if err != nil {
		return err
	}
	defer over()
	if reason := b.openSince(began); reason != nil {
		return reason
	}
	if !b.probed.After(failed) { // otherwise another job's probe has answered that
		probed := time.Now()
		result := w.probe(ctx)
		if result != nil && ctx.Err() != nil { // it was given up: a job that is canceled is no outage to the others
			return result
		}
		b.probed, b.result = probed, result
	}
	if b.result != nil && ctx.Err() == nil {
		w.pause(b.result)
	}
	return b.result
}

// probeAlone returns once no other probe goes on, with what is to be called when this one is over, or the context's error.
func (b *breaker) probeAlone(ctx context.Context) (over func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.probing != nil {
		other := b.probing
		b.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
		b.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	mine := make(chan struct{})
	b.probing = mine
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.probing = nil
		close(mine)
	}, nil
}

// pause starts a pause, or changes the reason of the current one.
func (w *Worker) pause(reason error) {
	b := &w.breaker
	b.switching.Lock()
	defer b.switching.Unlock()
	b.mu.Lock()
	already := b.open
	if !already {
		b.openedAt = time.Now()
	}
	b.open, b.reason = true, reason
	b.mu.Unlock()
	if !already {
		w.Metrics.Paused(true)
		w.Log.Error("worker pauses: it takes no jobs until it can run them", "worker", w.ID, "error", reason)
		w.consumer.stop()
		w.sessions.stop()
	}
}

// resume ends a pause, unless an operator has drained the worker: its probe may have looked before that.
func (w *Worker) resume() error {
	b := &w.breaker
	b.switching.Lock()
	defer b.switching.Unlock()
	if w.drained.Load() {
		return errDrainedByOperator
	}
	b.mu.Lock()
	openedAt := b.openedAt
	b.open, b.closedAt = false, time.Now()
	b.mu.Unlock()
	w.Metrics.Paused(false)
	w.Log.Info("worker goes on: it can run jobs again", "worker", w.ID, "paused_seconds", int(time.Since(openedAt).Seconds()))
	return w.takeJobs()
}

// monitor pauses the worker when what jobs need is away, and resumes it when that is back. It
// ends with ctx, and a probe with it: a drain must not wait for one.
func (w *Worker) monitor(ctx context.Context) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for pinged := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case w.paused() != nil:
			w.tryResume(ctx)
		case time.Since(pinged) >= pingInterval:
			w.checkHealth(ctx)
			pinged = time.Now()
		}
	}
}

// checkHealth pauses the worker when Podman or S3 are away.
func (w *Worker) checkHealth(ctx context.Context) {
	err := w.ping(ctx)
	if err == nil {
		return
	}
	select {
	case <-time.After(confirmDelay):
	case <-ctx.Done():
		return
	}
	if err = w.ping(ctx); err != nil && ctx.Err() == nil {
		w.pause(err)
	}
}

// tryResume ends the pause if a probe succeeds.
func (w *Worker) tryResume(ctx context.Context) {
	over, err := w.breaker.probeAlone(ctx)
	if err != nil {
		return
	}
	defer over()
	reason := w.probe(ctx)
	switch {
	case ctx.Err() != nil:
	case reason != nil:
		if before := w.paused(); before.Error() != reason.Error() {
			w.Log.Warn("worker stays paused for another reason", "worker", w.ID, "error", reason)
		}
		w.pause(reason)
	default:
		if err := w.resume(); err != nil {
			w.pause(err)
		}
	}
}
