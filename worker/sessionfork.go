package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// A fork is a session that begins where another one is: the worker that holds that one writes what its sandbox is, to a file of the fork's own, and holds the fork from then on. It begins as a
// session that is paused, so it holds no memory before its first execution.

// orReplay ends what is said of a fork that can't be had.
const orReplay = "; replay that session instead (glovebox session replay)"

// beginFork makes this worker the one that holds the fork, which is then to be given what its session's sandbox is. It reports whether there is a fork.
func (h *heldSession) beginFork(ctx context.Context, id string) bool {
	w := h.worker
	run := queue.Run{ID: id, Epoch: 1}
	refuse := func(why string) {
		if err := w.Records.EndSession(ctx, id, "", job.SessionEnd{Reason: job.EndFailed, Message: why + orReplay}); err != nil && !errors.Is(err, job.ErrSessionEnded) && !errors.Is(err, job.ErrNoSession) {
			h.log.Warn("a fork could not be refused, trying again", "fork", id, "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(askAgain):
			}
		}
	}
	if !w.sessions.takeSlot() {
		refuse("its worker holds as many sessions as it may")
		return false
	}
	if err := w.beginRun(run); err != nil {
		w.sessions.giveSlot()
		refuse("its worker takes no more sessions")
		return false
	}
	var x record.Session
	err := w.persist(h.life, id, func(ctx context.Context) (err error) { //nolint:contextcheck // it outlives the turn that asked for it
		x, err = w.Records.TakeFork(ctx, id, h.record.ID, w.ID)
		return err
	})
	failpoint.Hit(failpoint.ForkTaken)
	if err != nil {
		w.endRun(run)
		w.sessions.giveSlot()
		if !errors.Is(err, job.ErrSessionEnded) && !errors.Is(err, job.ErrNoSession) {
			h.log.Warn("a fork could not be taken", "fork", id, "error", err)
			refuse("its record could not be read")
		}
		return false
	}
	fork := &heldSession{
		worker: w, life: h.life, record: x, began: time.Now(), limits: h.limits, languages: h.languages, runtime: h.runtime, clock: newClock(x), log: w.Log.With("session_id", id, "fork_of", h.record.ID),
		memoryMB: h.memoryMB, mask: h.mask, head: h.head, attested: h.attested, anew: map[string]bool{},
	}
	if h.head != "" {
		fork.headOf = cmp.Or(h.headOf, h.record.ID)
	}
	for _, c := range x.Contexts {
		fork.anew[c.Name] = true
	}
	h.forking = fork
	if name := h.unseeded(x.Contexts); name != "" {
		h.endForking(fmt.Sprintf("the interpreter of its context %q can't draw its random numbers anew", name))
		return false
	}
	return true
}

// unseeded is a context whose interpreter would draw the same random numbers in the session and in its fork: Node seeds OpenSSL with what only its own image has. "" for none.
func (h *heldSession) unseeded(contexts []job.SessionContext) string {
	if h.languages[0] == "javascript" {
		return ""
	}
	for _, c := range contexts {
		if c.Language == "javascript" || c.Language == "typescript" {
			return c.Name
		}
	}
	return ""
}

// Forked is [sandbox.Forks].
func (h *heldSession) Forked(f sandbox.Fork, why error) {
	fork := h.forking
	if why != nil {
		h.log.Warn("session could not be forked", "fork", fork.record.ID, "error", why)
		h.endForking(forkFailure(why))
		return
	}
	h.forking = nil
	fork.from = f
	fork.pause = pause{on: true, bytes: f.Bytes()}
	h.worker.Metrics.SessionForked(f.Bytes())
	failpoint.Hit(failpoint.ForkWritten)
	go func() {
		defer h.worker.sessions.giveSlot()
		defer h.worker.endRun(queue.Run{ID: fork.record.ID, Epoch: 1})
		fork.hold()
	}()
}

// forkFailure is what the owner is told.
func forkFailure(why error) string {
	if errors.Is(why, sandbox.ErrWanted) {
		return "its worker shut down"
	}
	return "its worker could not write it to the disk, or has no room there"
}

// hold has the fork execute what comes for it, until it ends.
func (h *heldSession) hold() {
	defer h.giveMemory()
	defer h.from.Close()
	var forget func()
	h.wake, forget = h.worker.turns.Wait(h.record.ID)
	defer forget()
	defer h.worker.sessions.turns.enter(h.record.Tenant)()
	h.log.Info("session begins as a fork", "bytes", h.pause.bytes)
	outcome, err := h.run(h.life, runtimes.Runtime{})
	h.ended(outcome, err)
}

// endForking ends what was being forked from the session, if anything was.
func (h *heldSession) endForking(why string) {
	fork := h.forking
	if fork == nil {
		return
	}
	h.forking = nil
	w, run := h.worker, queue.Run{ID: fork.record.ID, Epoch: 1}
	defer w.sessions.giveSlot()
	defer w.endRun(run)
	err := w.persist(h.life, run.ID, func(ctx context.Context) error {
		err := w.Records.EndSession(ctx, run.ID, w.ID, job.SessionEnd{Reason: job.EndFailed, Message: why + orReplay})
		if errors.Is(err, job.ErrSessionEnded) || errors.Is(err, job.ErrNoSession) {
			return nil
		}
		return err
	})
	if err != nil {
		h.log.Error("a fork could not be ended, the reaper will", "fork", run.ID, "error", err)
	}
}

// drawsAnew reports whether the context's interpreter still has random numbers of the session that this one was forked from, and notes that it has its own from now on.
func (h *heldSession) drawsAnew(in sandbox.Context) bool {
	if !h.anew[in.Name] || in.Language == job.FilesLanguage {
		return false
	}
	delete(h.anew, in.Name)
	return true
}
