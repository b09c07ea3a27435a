package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// A session that executes nothing can be paused: it is on the worker's disk then, and holds no memory. It gets memory again, in its turn, before its
// next execution is taken, so what all sandboxes hold stays within the budget.

// pause is what heldSession knows of its pauses.
type pause struct {
	spell     *idleSpell // nil while it is paused, or executes something
	on        bool       // it is paused
	bytes     int64      // of the disk
	notBefore time.Time  // it could not be paused
	wait      time.Duration
	unwatch   func() // ends the watch for executions that come as it is being paused
}

// Paused is [sandbox.Pauses].
func (h *heldSession) Paused(bytes int64, took time.Duration) {
	h.pause.unwatch()
	h.giveMemory()
	h.pause.spell.end()
	h.pause = pause{on: true, bytes: bytes}
	h.worker.Metrics.SessionPaused(took, bytes)
	h.log.Info("session paused: it is on the disk", "bytes", bytes, "took", took)
}

// Stayed is [sandbox.Pauses].
func (h *heldSession) Stayed(why error) {
	h.pause.unwatch()
	h.pause.spell.end()
	interrupted := errors.Is(why, sandbox.ErrWanted)
	h.worker.Metrics.SessionStayed(interrupted)
	if interrupted {
		h.pause = pause{wait: h.pause.wait}
		h.log.Debug("session is executed in the place of being paused")
		return
	}
	wait := min(max(2*h.pause.wait, pauseAgain), maxPauseAgain)
	h.pause = pause{wait: wait, notBefore: time.Now().Add(wait)}
	h.log.Warn("session could not be paused, it stays in memory", "again_in", wait, "error", why)
}

// Resumed is [sandbox.Pauses].
func (h *heldSession) Resumed(took time.Duration) {
	h.worker.Metrics.SessionResumed(took, h.pause.bytes)
	h.pause = pause{}
	h.turn.began = time.Now() // what came before is no part of its run
	h.log.Info("session goes on after a pause", "took", took)
}

// giveMemory gives back what the session's sandbox may hold, if it has that.
func (h *heldSession) giveMemory() {
	if h.release != nil {
		h.release()
		h.release = nil
	}
}

// giveUnused gives back what an execution was to have that is not there.
func (h *heldSession) giveUnused() {
	h.giveSlot()
	if h.pause.on {
		h.giveMemory()
	}
}

// waitForMemory waits for a paused session's memory until stop is called, which gives it back if nobody has received it.
func (h *heldSession) waitForMemory(ctx context.Context) (given <-chan func(), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	got := make(chan func(), 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if release, err := h.worker.reserveSession(ctx, h.memoryMB); err == nil {
			got <- release
		}
	})
	return got, func() {
		cancel()
		waiting.Wait()
		select {
		case release := <-got:
			release()
		default:
		}
	}
}

// pauseTurn has the session paused, unless an execution comes meanwhile: to write a large one takes seconds.
func (h *heldSession) pauseTurn() (sandbox.Turn, bool, error) {
	interrupt := make(chan struct{})
	var heard atomic.Bool // of what may be a change of the session
	ctx, cancel := context.WithCancel(h.life)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-h.worker.draining:
				close(interrupt)
				return
			case <-h.wake:
				heard.Store(true)
			}
			_, err := h.worker.Records.TakeTurn(ctx, h.record.ID, h.worker.ID, h.done.job.ID, h.lost, record.Rest{})
			if !errors.Is(err, record.ErrNoTurn) && !errors.Is(err, record.ErrTurnHeld) {
				close(interrupt)
				return
			}
		}
	})
	h.pause.unwatch = func() { cancel(); watching.Wait(); h.overheard = heard.Load() }
	return sandbox.Turn{Pause: true, Interrupt: interrupt}, true, nil
}
