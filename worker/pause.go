package worker

import (
	"context"
	"sync"
	"time"
)

const (
	// pingInterval is how often a worker that is well looks whether Podman and S3 are
	// there, and trialInterval how often a paused one tries whether it can go on.
	pingInterval  = 10 * time.Second
	trialInterval = 3 * time.Second
	// confirmAfter is when a ping that failed is repeated, before it means anything.
	confirmAfter = time.Second
)

// pauses is whether the worker is paused: it takes no jobs, because it could run none.
type pauses struct {
	trial sync.Mutex // held during one
	tried time.Time  // when the last trial began
	found error      // and what it came to

	mu     sync.Mutex
	paused bool
	why    error     // of the last pause
	since  time.Time // when that began
	ended  time.Time // and ended, or the one before it
}

// met is why the worker is paused, or why it was in a pause that ended after began, or nil.
func (p *pauses) met(began time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused || p.ended.After(began) {
		return p.why
	}
	return nil
}

// paused is why the worker is paused, or nil.
func (w *Worker) paused() error {
	w.pauses.mu.Lock()
	defer w.pauses.mu.Unlock()
	if !w.pauses.paused {
		return nil
	}
	return w.pauses.why
}

// outage is why a job that was started at began and has just failed may have met an
// outage: this worker can run no jobs, and is paused, or was when the job ran. nil says
// that it can and could.
func (w *Worker) outage(ctx context.Context, began time.Time) error {
	failed := time.Now()
	p := &w.pauses
	if why := p.met(began); why != nil { // known: no need to wait for a trial that goes on
		return why
	}
	p.trial.Lock()
	defer p.trial.Unlock()
	if why := p.met(began); why != nil {
		return why
	}
	if !p.tried.After(failed) { // else another job's trial has answered that
		p.tried = time.Now()
		p.found = w.trial(ctx)
	}
	if p.found != nil && ctx.Err() == nil {
		w.pause(p.found)
	}
	return p.found
}

func (w *Worker) pause(why error) {
	p := &w.pauses
	p.mu.Lock()
	again := p.paused
	if !again {
		p.since = time.Now()
	}
	p.paused, p.why = true, why
	p.mu.Unlock()
	if !again {
		w.Metrics.Paused(true)
		w.Log.Error("worker pauses: it takes no jobs until it can run them", "worker", w.ID, "error", why)
		w.intake.shut()
	}
}

// goOn ends a pause.
func (w *Worker) goOn() error {
	p := &w.pauses
	p.mu.Lock()
	since := p.since
	p.paused, p.ended = false, time.Now()
	p.mu.Unlock()
	w.Metrics.Paused(false)
	w.Log.Info("worker goes on: it can run jobs again", "worker", w.ID, "paused_seconds", int(time.Since(since).Seconds()))
	return w.intake.open()
}

// watchOver pauses the worker when what jobs need is away, and lets it go on when that
// is back, until ctx ends, and a trial with it: a drain must not wait for one.
func (w *Worker) watchOver(ctx context.Context) {
	tick := time.NewTicker(trialInterval)
	defer tick.Stop()
	for pinged := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case w.paused() != nil:
			w.tryAgain(ctx)
		case time.Since(pinged) >= pingInterval:
			w.look(ctx)
			pinged = time.Now()
		}
	}
}

// look pauses the worker when Podman or S3 are away.
func (w *Worker) look(ctx context.Context) {
	err := w.ping(ctx)
	if err == nil {
		return
	}
	select {
	case <-time.After(confirmAfter):
	case <-ctx.Done():
		return
	}
	if err = w.ping(ctx); err != nil && ctx.Err() == nil {
		w.pause(err)
	}
}

// tryAgain ends the pause if a trial succeeds.
func (w *Worker) tryAgain(ctx context.Context) {
	w.pauses.trial.Lock()
	defer w.pauses.trial.Unlock()
	why := w.trial(ctx)
	switch {
	case ctx.Err() != nil:
	case why != nil:
		if was := w.paused(); was.Error() != why.Error() {
			w.Log.Warn("worker stays paused for another reason", "worker", w.ID, "error", why)
		}
		w.pause(why)
	default:
		if err := w.goOn(); err != nil {
			w.pause(err)
		}
	}
}
