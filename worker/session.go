package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// lookInterval is how often a session without an execution looks for one: a message can be lost, though whoever subscribes anew looks at once.
	lookInterval = 10 * time.Second
	// askAgain is how soon it does where Redis did not answer.
	askAgain = time.Second
	// sessionSlack is how much longer than its TTL a session's sandbox may live, to end what runs and to store it.
	sessionSlack = 25 * time.Second
)

// heldSession is a session that this worker holds: it gives the sandbox one execution after the other.
type heldSession struct {
	worker  *Worker
	life    context.Context //nolint:containedctx // that of the worker
	record  record.Session
	began   time.Time
	asked   bool // its sandbox has, for an execution
	runtime job.Runtime
	wake    <-chan struct{}
	log     *slog.Logger
	clock   clock

	mask      *secrets.Mask // of what executions print; nil without secrets
	limits    job.Limits
	languages []string       // of its contexts, that of main first
	turn      *turn          // that runs; nil between two
	done      turnEnd        // of the execution that was taken last
	lost      map[string]int // contexts whose interpreters ended with it, and their generations
	head      string         // the digest of the last execution that is attested
	headOf    string         // the session that it is of, where that is another: none of this fork's own is attested yet
	attested  int64          // how many are
	slot      bool           // it has one, for an execution
	memoryMB  int64          // what its sandbox may hold
	release   func()         // gives that back; nil while the session doesn't have it
	pause     pause
	from      sandbox.Fork    // what it begins with, where it is forked from another session
	forking   *heldSession    // what is being forked from it; nil: nothing
	anew      map[string]bool // contexts whose interpreters have random numbers of the session that it was forked from
	overheard bool            // what may be a change of it, while it was being paused
	idleSince time.Time       // zero while something is executed
	end       *job.SessionEnd // why no other turn comes; nil as long as one may
	elsewhere bool            // the record has ended already
}

// holdSession has a sandbox execute what comes for the session, until it ends. The memory, MiB, is the session's, and is given back by release.
func (w *Worker) holdSession(life context.Context, x record.Session, r runtimes.Runtime, memoryMB int64, release func()) {
	h := &heldSession{
		worker: w, life: life, record: x, began: time.Now(), limits: sessionLimits(x, r), languages: r.Languages(), clock: newClock(x), log: w.Log.With("session_id", x.ID),
		memoryMB: memoryMB, release: release,
	}
	defer h.giveMemory()
	var forget func()
	h.wake, forget = w.turns.Wait(x.ID)
	defer forget()
	defer w.sessions.turns.enter(x.Tenant)()
	h.log.Info("session begins", "runtime", r.Name)
	outcome, err := h.run(life, r)
	h.ended(outcome, err) //nolint:contextcheck // it has the worker's life
}

// errTTL ends what a session waits for at the end of its time. Any other deadline that passes is an outage, which nobody pays.
var errTTL = errors.New("the session's ttl_seconds are over")

// run is the sandbox from its start to its end.
func (h *heldSession) run(life context.Context, r runtimes.Runtime) (_ sandbox.Outcome, err error) {
	defer caught("run session: ", &err)
	// What Podman's clock is set by, as the session can be given more time.
	longest, cancelLongest := context.WithDeadlineCause(life, h.record.Created.Add(job.MaxTTLSeconds*time.Second+sessionSlack), errTTL)
	defer cancelLongest()
	ctx, cancel := context.WithCancelCause(longest)
	defer cancel(nil)
	defer h.clock.endAfter(sessionSlack, func() { cancel(errTTL) })()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errTTL) {
			err = errors.Join(errTTL, err)
		}
	}()
	if h.from != nil {
		p := sandbox.Program{JobID: h.record.ID, Epoch: 1, Limits: h.limits, Turns: h, From: h.from}
		return h.worker.Sandboxes.Run(ctx, p, noSink{})
	}
	imageCtx, cancelImage := context.WithTimeout(ctx, h.worker.ImageTimeout)
	defer cancelImage()
	digest, err := h.worker.Sandboxes.Image(imageCtx, r.Image())
	if err != nil {
		return sandbox.Outcome{}, err
	}
	h.runtime = job.Runtime{Name: r.Name, Version: r.Version, Image: r.Image(), ImageDigest: digest}
	env := map[string]string{}
	maps.Copy(env, r.Env)
	maps.Copy(env, h.record.Settings.Env)
	secretEnv, err := h.openSecrets(ctx)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	p := sandbox.Program{JobID: h.record.ID, Epoch: 1, Image: r.Image(), Command: r.Session, Languages: r.Contexts, Env: env, Limits: h.limits, Turns: h}
	if r.Preload != nil && r.Preload.Session && r.SessionCode != nil {
		p.Interpreter = &sandbox.File{Name: r.File, Content: r.SessionCode}
	}
	return h.worker.Sandboxes.Run(ctx, p.With(secretEnv), noSink{})
}

// Next waits for an execution, or for the session's end, or until the session is to be paused.
func (h *heldSession) Next(ctx context.Context) (t sandbox.Turn, ok bool, err error) {
	w, x := h.worker, h.record
	var chosen <-chan struct{} // to be paused; nil where it can't be
	pausing := false
	rest := func() {
		if h.pause.on || h.pause.spell != nil {
			return
		}
		if h.pause.spell = w.sessions.pauser.begin(h.memoryMB, h.pause.notBefore); h.pause.spell != nil {
			chosen = h.pause.spell.chosen
		}
	}
	busy := func() {
		h.pause.spell.end()
		h.pause.spell, chosen, pausing = nil, nil, false
	}
	h.pause.spell = nil
	rest()
	defer func() {
		if !t.Pause {
			h.pause.spell.end()
		}
	}()
	var fork *record.ForkError
	if h.idleSince.IsZero() { // else it was to be paused
		h.idleSince = time.Now()
	}
	due, look := time.NewTimer(h.clock.due(h.idleSince)), time.NewTimer(lookInterval)
	defer due.Stop()
	defer look.Stop()
	var given <-chan struct{} // a slot; nil while none is waited for
	var memory <-chan func()  // that of a paused session; nil while none is waited for
	stopWaiting, stopMemory := func() {}, func() {}
	defer func() { stopWaiting(); stopMemory() }()
	withdraw := func() { // what was asked for an execution that is not there
		stopWaiting()
		stopMemory()
		given, memory, stopWaiting, stopMemory = nil, nil, func() {}, func() {}
		h.giveUnused()
	}
	woken := h.overheard
	h.overheard = false
	var warn await.Rarely
	for {
		select { // before another execution begins
		case <-w.draining:
			return h.noMore(job.EndDrained, "its worker shut down")
		default:
		}
		look.Reset(lookInterval)
		if h.clock.expired() { // nothing begins any more, unless it was given more time
			if _, end := h.readClock(ctx, "", 0, &warn); end != nil {
				return h.noMore(end.Reason, end.Message)
			}
		}
		h.slot = h.slot || given == nil && h.release != nil && w.sessions.turns.try(x.Tenant)
		h.asked = true
		failpoint.Hit(failpoint.SessionHeld)
		j, err := w.Records.TakeTurn(ctx, x.ID, w.ID, h.done.job.ID, h.lost, record.Rest{Slot: h.slot && h.release != nil, Paused: h.pause.on})
		switch {
		case err == nil:
			busy()               // its files are read now, which may take long
			t, err := h.begin(j) //nolint:contextcheck // what watches it outlives ctx, as the worker does
			if h.refused(err) {
				h.idleSince = time.Now() // somebody has asked for something
				continue
			}
			return t, err == nil, err
		case errors.As(err, &fork):
			h.idleSince = time.Now() // somebody has asked for something
			withdraw()
			if h.beginFork(ctx, fork.ID) {
				return sandbox.Turn{Fork: true, Interrupt: w.draining}, true, nil
			}
			continue
		case errors.Is(err, record.ErrUnended):
			if err := h.endAgain(); err != nil {
				return sandbox.Turn{}, false, err
			}
			continue
		case errors.Is(err, record.ErrNoSlot):
			busy()
			switch {
			case h.release == nil && memory == nil: // a slot is of no use before
				memory, stopMemory = h.waitForMemory(ctx)
			case h.release != nil && given == nil:
				given, stopWaiting = w.sessions.turns.wait(x.Tenant)
			}
			h.idleSince = time.Now()
		case errors.Is(err, job.ErrSessionEnded), errors.Is(err, job.ErrNoSession):
			h.elsewhere = true
			return h.noMore("", "")
		case errors.Is(err, record.ErrSpent):
			return h.noMore(job.EndBudget, "its executions have used what they may")
		case errors.Is(err, record.ErrTurnHeld): // whoever decides may take longer than its idle_seconds
			withdraw()
			rest()
			h.idleSince = time.Now()
		case errors.Is(err, record.ErrNoTurn):
			withdraw()
			rest()
		case ctx.Err() == nil:
			if warn.Now() {
				h.log.Warn("executions could not be looked for, trying again", "error", err)
			}
			h.idleSince = time.Now() // nobody could ask for anything
			look.Reset(askAgain)
		}
		if woken { // by what may be a change of the session
			if _, end := h.readClock(ctx, "", time.Since(h.idleSince), &warn); end != nil {
				return h.noMore(end.Reason, end.Message)
			}
		}
		if pausing && (errors.Is(err, record.ErrNoTurn) || errors.Is(err, record.ErrTurnHeld)) {
			return h.pauseTurn() //nolint:contextcheck // it has the worker's life
		}
		due.Reset(h.clock.due(h.idleSince))
		woken = true
		select {
		case <-ctx.Done():
			return sandbox.Turn{}, false, context.Cause(ctx)
		case <-given:
			given, stopWaiting = nil, func() {}
			h.slot, woken = true, false
		case release := <-memory:
			stopMemory()
			memory, stopMemory = nil, func() {}
			h.release, woken = release, false
		case <-chosen:
			chosen, pausing = nil, true // unless an execution waits by now
		case <-h.wake:
		case <-look.C:
		case <-w.draining:
		case <-due.C: // but an execution may wait whose message was lost, or it was given more time
		}
	}
}

// refused ends an execution whose files can't be had, whose context is another by now, or that was canceled meanwhile: nothing of it is executed. Any other error is the session's.
func (h *heldSession) refused(err error) bool {
	status, reason := job.Canceled, (*job.Error)(nil)
	var input *inputError
	var elsewhere *placeError
	switch {
	case errors.As(err, &elsewhere):
		reason = elsewhere.reason
	case errors.As(err, &input):
		status, reason = job.Failed, input.reason
	case !errors.Is(err, errCanceled) && !errors.Is(err, errLost):
		return false
	}
	h.turn.close()
	ending := h.worker.endUnrun(h.life, h.turn.job, status, reason, spent{})
	h.done, h.turn = turnEnd{h.turn.job, ending}, nil
	return true
}

// endAgain ends the record of the execution before once more, with what came of it: a Redis that crashed has lost that. With an error the session ends.
func (h *heldSession) endAgain() error {
	h.log.Warn("Redis has lost the end of an execution, it is written again", "job_id", h.done.job.ID)
	return h.worker.endRecord(h.life, h.done.job, h.done.ending)
}

// giveSlot gives back the session's slot, if it has one.
func (h *heldSession) giveSlot() {
	if h.slot {
		h.slot = false
		h.worker.sessions.turns.give(h.record.Tenant)
	}
}

func (h *heldSession) noMore(reason, message string) (sandbox.Turn, bool, error) {
	h.end = &job.SessionEnd{Reason: reason, Message: message}
	return sandbox.Turn{}, false, nil
}

// Ended stores what became of an execution, and ends its record.
func (h *heldSession) Ended(ctx context.Context, o sandbox.TurnOutcome) error {
	h.idleSince = time.Time{}
	state := job.StateKept
	if o.StateLost {
		state = job.StateLost
	}
	h.lost = h.turn.lostWith(o)
	return h.turn.finish(ctx, sandbox.Outcome{
		Status: o.Status, ExitCode: o.ExitCode, Signal: o.Signal, Usage: o.Usage, Limit: o.Limit,
		StdoutTruncated: o.StdoutTruncated, StderrTruncated: o.StderrTruncated, ShownLeftOut: o.ShownLeftOut, Skipped: o.Skipped, SkippedTotal: o.SkippedTotal,
		ImageDigest: h.runtime.ImageDigest, OCIRuntime: o.OCIRuntime, LimitsEnforced: o.LimitsEnforced, Snapshot: o.Snapshot,
	}, state, o.LostContexts)
}

// ended ends the session's record, once its sandbox is gone.
func (h *heldSession) ended(outcome sandbox.Outcome, err error) {
	end := h.end
	var unopened *secretsError
	switch {
	case errors.As(err, &unopened):
		end = &job.SessionEnd{Reason: job.EndFailed, Message: unopened.message}
	case err != nil && errors.Is(err, errDrained):
		end = &job.SessionEnd{Reason: job.EndDrained, Message: "its worker shut down"}
	case err == nil && outcome.Lost && outcome.Status == job.OutOfMemory:
		end = &job.SessionEnd{Reason: job.EndMemory, Message: "it held more than its memory_mb, and its sandbox was ended for it"}
	case end == nil && errors.Is(err, errTTL):
		end = &job.SessionEnd{Reason: job.EndTTL, Message: "its ttl_seconds are over"}
	case errors.Is(err, sandbox.ErrStateLost):
		end = &job.SessionEnd{Reason: job.EndPause, Message: "it was paused, and could not go on from its worker's disk: its state and files are lost"}
	case end == nil || err != nil:
		end = &job.SessionEnd{Reason: job.EndFailed, Message: "its sandbox could not be started, or was lost, or the bucket was away for too long"}
	}
	ctx := context.WithoutCancel(h.life)
	if h.turn != nil && err == nil && outcome.Lost { // the outcome is the execution's
		err = h.turn.finish(h.life, outcome, job.StateLost, nil) // a worker that shuts down waits for no bucket
	}
	if h.turn != nil {
		h.turn.close()
		h.worker.discard(ctx, h.turn.job)
	}
	h.giveSlot()
	h.endForking("the session that it was to be forked from has ended")
	if h.pause.on {
		h.worker.Metrics.PausedSessionEnded(h.pause.bytes)
	}
	if !h.asked && unopened == nil && h.from == nil && h.givenBack(end) {
		h.log.Warn("session given back before it began", "reason", end.Reason, "error", err)
		return
	}
	h.log.Info("session ends", "reason", end.Reason, "error", err)
	if h.elsewhere {
		return
	}
	err = h.worker.persist(h.life, h.record.ID, func(ctx context.Context) error {
		err := h.worker.Records.EndSession(ctx, h.record.ID, h.worker.ID, *end)
		if errors.Is(err, job.ErrSessionEnded) || errors.Is(err, job.ErrNoSession) {
			return nil
		}
		return err
	})
	if err != nil {
		h.log.Error("session could not be ended, the reaper will", "error", err)
	}
}

// givenBack reports whether another worker can have the session, which has not begun: this one can run nothing, or shuts down.
func (h *heldSession) givenBack(end *job.SessionEnd) bool {
	w := h.worker
	if end.Reason != job.EndDrained && (end.Reason != job.EndFailed || w.outage(h.life, h.began) == nil) {
		return false
	}
	given := false
	err := w.persist(h.life, h.record.ID, func(ctx context.Context) (err error) {
		given, err = w.Records.GiveBackSession(ctx, h.record, w.ID)
		return err
	})
	return err == nil && given
}

// noSink is for what a sandbox says outside of executions.
type noSink struct{}

func (noSink) Stdout([]byte) error { return nil }
func (noSink) Stderr([]byte) error { return nil }
func (noSink) Artifact(context.Context, string, int64, io.Reader) error {
	return nil
}
