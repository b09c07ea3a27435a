package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// turn is an execution of a session, while it runs.
type turn struct {
	session *heldSession
	job     record.Record
	keys    artifacts.Keys
	out     *output
	events  *eventPublisher
	began   time.Time
	files   []*capture // that it is given
	limits  job.Limits
	at      job.ExecutionState // where it is
	in      sandbox.Context
	beside  map[string]int
	input   *attest.Input
	close   func() // ends all that watches it, and gives its slot back, should it have that yet
}

// turnEnd is how an execution ended.
type turnEnd struct {
	job    record.Record
	ending record.Ending
}

// begin makes ready what an execution that has a slot needs besides the sandbox.
func (h *heldSession) begin(j record.Record) (sandbox.Turn, error) {
	failpoint.Hit(failpoint.BeforeStart)
	w := h.worker
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err == nil && j.Spec == nil {
		err = fmt.Errorf("execution %s has no spec", j.ID)
	}
	if err != nil {
		return sandbox.Turn{}, err
	}
	events := w.eventPublisher(j)
	wake, forget := w.cancels.Wait(j.ID)
	watching, stopWatching := w.watch(h.life, j, wake, events, 0) // it may have been canceled since it was taken, and before anybody listened
	interrupted := make(chan struct{})
	interrupt := sync.OnceFunc(func() { close(interrupted) })
	stopInterrupt := context.AfterFunc(watching, interrupt)
	restarted := make(chan struct{})
	in, beside, misplaced := h.place(j)
	stopClock := h.watchClock(in, interrupt, sync.OnceFunc(func() { close(restarted) }))
	out := newOutput(w, keys, j.Epoch, events, h.mask, true)
	limits := h.limits
	if own := j.Spec.Limits.WallMS; own > 0 {
		limits.WallMS = min(limits.WallMS, own)
	}
	at := job.ExecutionState{ID: h.record.ID, Sequence: j.Sequence, Context: j.Place.Context, Language: j.Place.Language, Generation: in.Generation}
	given := *j.Spec
	given.Env, given.Secrets = h.record.Settings.Env, h.record.Settings.Secrets
	h.turn = &turn{session: h, job: j, keys: keys, out: out, events: events, began: time.Now(), limits: limits, at: at, in: in, beside: beside, input: attest.NewExecutionInput(given, at, h.head)}
	h.turn.close = sync.OnceFunc(func() {
		stopClock()
		stopInterrupt()
		stopWatching()
		forget()
		events.finish()
		err := out.close()
		for _, f := range h.turn.files {
			err = errors.Join(err, f.close())
		}
		if err != nil {
			h.log.Warn("output of an execution could not be removed", "job_id", j.ID, "error", err)
		}
		h.giveSlot()
	})
	if misplaced != nil {
		return sandbox.Turn{}, misplaced
	}
	if err := approved(j, []byte(j.SpecText)); err != nil {
		return sandbox.Turn{}, err
	}
	files, err := h.turn.inputs(watching)
	if err != nil {
		return sandbox.Turn{}, err
	}
	if watching.Err() != nil { // without files to read nothing else has looked
		return sandbox.Turn{}, context.Cause(watching)
	}
	return sandbox.Turn{
		Files: files, Code: []byte(j.Spec.Source), Wall: wallTime(limits), Interrupt: interrupted, Restart: restarted, Context: in, Contexts: beside, Anew: h.drawsAnew(in),
		Sink: turnSink{out, w.SpoolDir, w.UploadTimeout, h.log},
	}, nil
}

// finish stores what became of the execution, and ends its record. With an error its session ends, and the execution with it.
func (t *turn) finish(ctx context.Context, o sandbox.Outcome, state string, lostContexts []string) error {
	h, w := t.session, t.session.worker
	var ending record.Ending
	ctx, processed := w.Tracer.Process(ctx, t.job.Trace, t.job.ID, t.job.Runtime, t.job.Attempts, t.job.Created, t.job.Started)
	defer func() { processed(string(ending.Status)) }()
	ended := time.Now()
	h.giveSlot() // what follows is the bucket's time
	w.Tracer.Step(ctx, "run", t.began, ended)
	defer func() { w.Tracer.Step(ctx, "store", ended, time.Now()) }()
	storing, cancel := context.WithTimeout(ctx, w.UploadTimeout)
	defer cancel()
	if err := t.out.end(o); err != nil {
		return err
	}
	if out, errs := t.out.stdout.cut, t.out.stderr.cut; out || errs {
		h.log.Warn("what an execution printed was cut off: there is no room to spool it", "job_id", t.job.ID, "stdout", out, "stderr", errs)
		o.StdoutTruncated, o.StderrTruncated = o.StdoutTruncated || out, o.StderrTruncated || errs
	}
	result := w.result(t.job, h.runtime, o, t.out)
	kept := map[string]bool{}
	for _, a := range t.out.artifacts {
		kept[a.Name] = true
	}
	result.Results, result.ResultsLeftOut, result.Exception = readShown(t.out.shown, kept, o.ShownLeftOut, h.mask)
	t.events.addShown(result.Results)
	result.Timing.StartupMS = max(t.began.Sub(t.job.Started).Milliseconds(), 0)
	at := t.at
	at.State, at.LostContexts = state, lostContexts
	result.Session = &at
	metered := w.Records.Meter(&result, h.limits.MemoryMB)
	files := t.out.stored
	// A job would be tried again. A session has its state to lose, so it waits for a bucket that is away.
	err := await.Until(storing, h.log, "the bucket, to store an execution's result", func(ctx context.Context) (err error) {
		t.out.stored = files
		if err := t.out.storeStreams(ctx, &result); err != nil {
			return err
		}
		if err := w.attest(&result, *t.job.Spec, t.input, t.limits, t.out, link{h.head, h.headOf}); err != nil {
			return errors.Join(await.ErrSettings, err) // no waiting helps
		}
		input, err := t.storeInput(ctx)
		if err != nil {
			return err
		}
		ending, err = t.storeResult(ctx, result)
		ending.InputRef = input
		return err
	})
	if err != nil {
		return err
	}
	ending.Metered, ending.Rested = metered, state == job.StateKept && len(lostContexts) == 0
	if result.Attestation != nil {
		if ending.Head, err = attest.Head(result.Attestation); err != nil {
			return err
		}
		ending.Attested = h.attested + 1
	}
	failpoint.Hit(failpoint.ResultWritten)
	t.events.finish()                        // the result comes after the output
	err = w.endRecord(h.life, t.job, ending) //nolint:contextcheck // what is stored is ended, also after ctx
	failpoint.Hit(failpoint.RecordEnded)
	t.close()
	h.turn, h.done = nil, turnEnd{t.job, ending}
	w.afterEnd(context.WithoutCancel(ctx), t.job, ending.Status, err)
	if err != nil && !lost(err) {
		return err
	}
	if ending.Head != "" {
		h.head, h.headOf, h.attested = ending.Head, "", ending.Attested
	}
	return nil
}

// inRecord is how large a result may be that the record alone has, and what the execution was given, bytes each: a request to the bucket takes longer than most executions. An
// attestation has some 3 KiB of it.
const inRecord = 6 << 10

// storeInput stores what the execution was given, where that is large. Else the record keeps it.
func (t *turn) storeInput(ctx context.Context) (ref string, err error) {
	b, err := record.MarshalExecution(*t.job.Spec, t.job.Place)
	if err != nil {
		return "", err
	}
	if len(b) <= inRecord {
		return "", nil
	}
	ref = t.keys.Input(int64(t.job.Epoch))
	if _, err := t.session.worker.Objects.PutBytes(ctx, ref, "application/json", b); err != nil {
		return "", err
	}
	t.out.stored += int64(len(b))
	return ref, nil
}

// storeResult stores a result that is small, of an execution that has left no object, in the record alone.
func (t *turn) storeResult(ctx context.Context, result job.Result) (record.Ending, error) {
	b, err := job.Marshal(result)
	if err != nil {
		return record.Ending{}, fmt.Errorf("encode result: %w", err)
	}
	if t.out.stored == 0 && !t.out.dirty && len(b) <= inRecord {
		return record.Ending{Status: result.Status, Result: b}, nil
	}
	return t.session.worker.storeResult(ctx, t.job, t.keys, result, t.out)
}
