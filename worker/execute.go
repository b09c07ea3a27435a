package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/smithy-go"
	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// handle is what asynq calls. It returns an error only when the task should come
// back: when Redis could not be asked whose turn it is.
func (w *Worker) handle(life context.Context, t *asynq.Task) error {
	defer func() { <-w.slots }() // taken before the task was
	var run queue.Run
	if err := json.Unmarshal(t.Payload(), &run); err != nil {
		w.Log.Error("task dropped: not a run", "error", err)
		return nil
	}
	log := w.Log.With("job_id", run.ID, "epoch", run.Epoch)
	if err := w.beginRun(run); errors.Is(err, errRunning) {
		return nil // the same task was delivered twice
	} else if err != nil {
		return err
	}
	defer w.endRun(run)
	w.Metrics.Took(1)
	defer w.Metrics.Took(-1)
	// Before the record is read, or a cancellation between the two would wake nobody.
	wake, forget := w.cancels.Wait(run.ID)
	defer forget()
	failpoint.Hit(failpoint.BeforeStart)
	j, err := w.Records.StartOn(life, run.ID, run.Epoch, record.Starter{ID: w.ID, Offers: w.offered(), Labels: w.Labels, Only: w.Only})
	var elsewhere *record.NotOfferedError
	switch {
	case errors.As(err, &elsewhere):
		return w.handOver(life, run, elsewhere)
	case errors.Is(err, job.ErrNotFound), errors.Is(err, record.ErrStale), errors.Is(err, job.ErrEnded), errors.Is(err, record.ErrTaken), errors.Is(err, record.ErrMisplaced):
		log.Debug("task dropped", "reason", err)
		return nil
	case err != nil: // also ErrNewer: a newer worker may take it
		log.Warn("job could not be started, its task comes back", "error", err)
		return err
	}
	w.execute(life, j, wake)
	return nil
}

// execute is the path of a job: run it, store what it made, end its record. An error in
// between is Glovebox's, and the job goes back to the queue.
func (w *Worker) execute(life context.Context, j record.Record, wake <-chan struct{}) {
	events := w.eventPublisher(j)
	defer events.finish()
	ctx, stop := w.watch(life, j, wake, events, recheckInterval)
	defer stop()
	ctx, processed := w.Tracer.Process(ctx, j.Trace, j.ID, j.Runtime, j.Attempts, j.Ready(), j.Started)
	var ending record.Ending
	defer func() { processed(string(ending.Status)) }()
	ending, used, err := w.run(ctx, j, events)
	var input *inputError
	switch {
	case err != nil && ctx.Err() != nil: // cancelled or drained: that is why it failed
		w.requeueOrEnd(life, j, context.Cause(ctx), used)
		return
	case errors.As(err, &input): // nothing ran, and nothing would another time
		ending.Status = job.Failed
		w.endUnrun(life, j, job.Failed, input.reason, used)
		return
	case errors.Is(err, errHeld): // it has stored nothing
		w.requeue(life, j, err)
		return
	case err != nil:
		w.Metrics.Failed(reason(err))
		w.requeueOrEnd(life, j, err, used)
		return
	}
	failpoint.Hit(failpoint.ResultWritten)
	// The result is written, so it counts even if a cancellation or a shutdown comes now.
	written := time.Now()
	err = w.endRecord(life, j, ending)
	w.Tracer.Step(ctx, "end", written, time.Now())
	failpoint.Hit(failpoint.RecordEnded)
	w.afterEnd(context.WithoutCancel(ctx), j, ending.Status, err)
}

// run runs the job in a sandbox and stores everything that it made. A panic counts as an
// error: otherwise asynq would call again and again, and no attempt would be spent.
func (w *Worker) run(ctx context.Context, j record.Record, events *eventPublisher) (_ record.Ending, used spent, err error) {
	defer caught("run job: ", &err)
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err != nil {
		return record.Ending{}, used, err
	}
	spec, release, err := w.admit(ctx, j, keys)
	if err != nil {
		return record.Ending{}, used, err
	}
	defer release()
	if !w.Isolation.Suffices(spec.Isolation) { // no worker is offered such a job: this is for records that say something else than their spec
		return record.Ending{}, used, fmt.Errorf("the job accepts no less than %s, and this worker isolates by %s", spec.Isolation.Or(), w.Isolation)
	}
	if spec.Stream {
		events.start(&w.publishers)
	}
	input := attest.NewInput(spec)
	program, runtime, err := w.program(ctx, j, spec, input)
	if err != nil {
		return record.Ending{}, used, err
	}
	env, mask, err := w.secrets(ctx, j.Tenant, spec.Secrets)
	if err != nil {
		return record.Ending{}, used, err
	}
	program = program.With(env)
	if spec.Interactive {
		program.Input = w.interactive(j)
	}
	out := newOutput(w, keys, j.Epoch, events, mask, false)
	defer out.close()
	defer events.finish()
	most := wallTime(program.Limits) + compileTime(program.Limits)
	if spec.Graded() {
		most = gradingTime(len(spec.Tests), spec.Passes(), program.Limits) + w.checkingTime(spec)
	}
	ctx, cancel := context.WithTimeout(ctx, most+w.UploadTimeout)
	defer cancel()
	var outcome sandbox.Outcome
	var grader *grader
	prepared := time.Now()
	w.Tracer.Step(ctx, "prepare", j.Started, prepared)
	if spec.Graded() {
		grader, outcome, err = w.grade(ctx, j, spec, program)
	} else {
		outcome, err = w.runProgram(ctx, j.Started, program, out)
	}
	used = spent{outcome.Usage, program.Limits.MemoryMB}
	if err != nil {
		return record.Ending{}, used, fmt.Errorf("%w: %w", errSandbox, err)
	}
	w.traceSandbox(ctx, prepared, outcome.Timing)
	defer func(ended time.Time) { w.Tracer.Step(ctx, "store", ended, time.Now()) }(time.Now())
	if err := out.end(outcome); err != nil {
		return record.Ending{}, used, err
	}
	if outcome.Compile != nil {
		outcome.Compile.Output = mask.Text(outcome.Compile.Output)
	}
	w.Metrics.Ran(runtime.Name, outcome.Start(), outcome.Starting(), outcome.Usage, out.artifacts)
	result := w.result(j, runtime, outcome, out)
	if grader != nil {
		grader.fill(&result)
	}
	metered := w.Records.Meter(&result, program.Limits.MemoryMB)
	if err := out.storeStreams(ctx, &result); err != nil {
		return record.Ending{}, used, err
	}
	if err := w.attest(&result, spec, input, program.Limits, out, link{}); err != nil {
		return record.Ending{}, used, err
	}
	if err := w.storeSubmission(ctx, j, keys, spec, out); err != nil {
		return record.Ending{}, used, err
	}
	ending, err := w.storeResult(ctx, j, keys, result, out)
	ending.Metered = metered
	return ending, used, err
}

// traceSandbox makes the spans of what a sandbox did that began at that time.
func (w *Worker) traceSandbox(ctx context.Context, began time.Time, t sandbox.Timing) {
	w.Tracer.Step(ctx, "start sandbox", began, began.Add(t.Ready))
	w.Tracer.Step(ctx, "send files", began.Add(t.Ready), began.Add(t.Started)) // and compile
	w.Tracer.Step(ctx, "run", began.Add(t.Started), began.Add(t.Exited))
	w.Tracer.Step(ctx, "collect and upload", began.Add(t.Exited), began.Add(t.Ended))
}

// storeSubmission writes what was submitted to be graded by a stored problem, beside the result: the record forgets it at the job's end.
func (w *Worker) storeSubmission(ctx context.Context, j record.Record, keys artifacts.Keys, spec job.Spec, out *output) error {
	if spec.Problem == "" {
		return nil
	}
	b, err := job.Marshal(spec.Submission())
	if err != nil {
		return fmt.Errorf("encode submission: %w", err)
	}
	if len(b) > job.MaxSubmissionBytes {
		return nil
	}
	if _, err := w.Objects.PutBytes(ctx, keys.Submission(int64(j.Epoch)), "application/json", b); err != nil {
		return err
	}
	out.stored += int64(len(b))
	return nil
}

// runProgram runs what a job brings that was started then. That its sandbox fell silent is its own doing only where this worker can run sandboxes.
func (w *Worker) runProgram(ctx context.Context, started time.Time, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error) {
	o, err := w.Sandboxes.Run(ctx, p, sink)
	if err != nil || !o.Silent {
		return o, err
	}
	if err := w.outage(ctx, started); err != nil {
		return o, fmt.Errorf("the sandbox fell silent: %w", err)
	}
	return o, nil
}

// storeResult writes result.json, and returns the record's end.
func (w *Worker) storeResult(ctx context.Context, j record.Record, keys artifacts.Keys, result job.Result, out *output) (record.Ending, error) {
	b, err := job.Marshal(result)
	if err != nil {
		return record.Ending{}, fmt.Errorf("encode result: %w", err)
	}
	ending := record.Ending{Status: result.Status, ResultRef: keys.Result(int64(j.Epoch)), Dirty: out.dirty, Stored: out.stored + int64(len(b))}
	if _, err := w.Objects.PutBytes(ctx, ending.ResultRef, "application/json", b); err != nil {
		return record.Ending{}, err
	}
	if len(b) <= record.MaxInline {
		ending.Result = b
	}
	return ending, nil
}

// errSandbox is wrapped by the errors of a sandbox and of its sink.
var errSandbox = errors.New("run in a sandbox")

// reason returns the class of an internal error, for the metrics.
func reason(err error) metrics.Failure {
	var store *smithy.OperationError // every request to the bucket fails with one
	switch {
	case errors.As(err, &store):
		return metrics.FailStore
	case errors.Is(err, errSandbox):
		return metrics.FailSandbox
	}
	return metrics.FailOther
}

// program returns what the sandbox runs.
func (w *Worker) program(ctx context.Context, j record.Record, spec job.Spec, input *attest.Input) (sandbox.Program, job.Runtime, error) {
	if spec.Image != "" {
		return w.imageProgram(ctx, j, spec, input)
	}
	runtime, ok := w.Runtimes.Lookup(spec.Runtime)
	if !ok {
		return sandbox.Program{}, job.Runtime{}, fmt.Errorf("this worker has no runtime %q", spec.Runtime)
	}
	imageCtx, cancel := context.WithTimeout(ctx, w.ImageTimeout)
	defer cancel()
	if _, err := w.Sandboxes.Image(imageCtx, runtime.Image()); err != nil {
		return sandbox.Program{}, job.Runtime{}, err
	}
	files, entrypoint, err := w.inputs(ctx, j, spec, runtime.File, input)
	if err != nil {
		return sandbox.Program{}, job.Runtime{}, err
	}
	stdin, err := spec.StdinBytes()
	if err != nil {
		return sandbox.Program{}, job.Runtime{}, fmt.Errorf("read stdin: %w", err)
	}
	compile, command := runtime.Command(entrypoint, spec.Args)
	if spec.Commands != nil {
		compile, command = spec.Commands.Argv(spec.Args)
	}
	env := make(map[string]string, len(runtime.Env)+len(spec.Env))
	for k, v := range runtime.Env {
		env[k] = v
	}
	for k, v := range spec.Env {
		env[k] = v
	}
	return sandbox.Program{
		JobID: j.ID, Epoch: j.Epoch, Image: runtime.Image(), Compile: compile, Command: command,
		Env: env, Files: files, Stdin: stdin, MergeStderr: spec.MergeStderr, TruncateOutput: spec.TruncateOutput,
		Limits: limitsOf(spec, runtime), Isolation: spec.Isolation, Fresh: spec.Fresh,
	}, job.Runtime{Name: runtime.Name, Version: runtime.Version, Image: runtime.Image()}, nil
}

// limitsOf returns the limits of the job's sandbox, defaults included.
func limitsOf(spec job.Spec, runtime runtimes.Runtime) job.Limits {
	limits := spec.Limits.Filled(runtime.Limits)
	if !compiles(runtime, spec.Commands) {
		return limits.WithoutCompile()
	}
	return limits
}

// compiles reports whether a program has a compile step; commands are in the place of its runtime's.
func compiles(runtime runtimes.Runtime, commands *job.Commands) bool {
	if commands != nil {
		return commands.Compile != ""
	}
	return len(runtime.Compile) > 0
}
