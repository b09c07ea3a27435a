package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// maxSpecBytes bounds a spec that is read from S3; base64 and JSON make it larger than its inputs.
	maxSpecBytes = 256 << 20
	// specCopies is how many copies of a spec that is read from S3 are in memory at once: its
	// JSON, the decoded spec, and its files once more, out of their base64.
	specCopies = 3
)

// admit waits until there is memory for the job's sandbox and for its spec, if that has to
// be read from S3, and returns the spec.
//
// The spec says what the sandbox needs. So memory for the spec is taken first. If there is none
// for the sandbox then, the spec's is given back, and the job waits for both at once: jobs that
// each hold one and wait for the other would wait for ever.
func (w *Worker) admit(ctx context.Context, j record.Record, keys artifacts.Keys) (_ job.Spec, release func(), err error) {
	if j.Spec != nil {
		if err := approved(j, []byte(j.SpecText)); err != nil {
			return job.Spec{}, nil, err
		}
		release, err = w.acquire(ctx, w.sandboxMB(*j.Spec))
		return *j.Spec, release, err
	}
	specMB := min(specCopies*(j.SpecBytes>>20+1), w.MemoryMB)
	releaseSpec, err := w.acquire(ctx, specMB)
	if err != nil {
		return job.Spec{}, nil, err
	}
	spec, err := w.readSpec(ctx, j, keys)
	if err != nil {
		releaseSpec()
		return job.Spec{}, nil, err
	}
	sandboxMB := w.sandboxMB(spec)
	if releaseSandbox, ok := w.tryAcquire(sandboxMB); ok {
		return spec, func() { releaseSandbox(); releaseSpec() }, nil
	}
	releaseSpec()
	if release, err = w.acquire(ctx, specMB+sandboxMB); err != nil {
		return job.Spec{}, nil, err
	}
	if spec, err = w.readSpec(ctx, j, keys); err != nil {
		release()
		return job.Spec{}, nil, err
	}
	return spec, release, nil
}

// sandboxMB returns what the job's sandbox may use, MiB, its own overhead included, and what comparing
// its outputs with answers takes of this process.
func (w *Worker) sandboxMB(spec job.Spec) int64 {
	runtime, _ := w.Runtimes.Lookup(spec.Runtime) // none for a job that brings its image
	l := limitsOf(spec, runtime)
	mb := l.SandboxMB() + sandbox.CostMB(l)
	if spec.Graded() {
		mb += grading.MemoryMB(checkerOf(spec)) + w.checkerMB(spec)
	}
	return mb
}

// acquire waits for so many MiB. A job above the whole budget runs alone. It fails with errHeld.
func (w *Worker) acquire(ctx context.Context, mb int64) (release func(), err error) {
	mb = min(mb, w.MemoryMB)
	if release, ok := w.tryAcquire(mb); ok {
		return release, nil
	}
	ctx, stop := w.whileInReach(ctx, mb)
	defer stop()
	if ctx.Err() != nil || w.memory.acquire(ctx, mb) != nil {
		return nil, context.Cause(ctx)
	}
	return w.reserved(mb), nil
}

// tryAcquire takes so many MiB if they are free.
func (w *Worker) tryAcquire(mb int64) (release func(), ok bool) {
	if !w.memory.tryAcquire(mb) {
		return nil, false
	}
	return w.reserved(mb), true
}

func (w *Worker) reserved(mb int64) (release func()) {
	w.Metrics.Reserved(mb << 20)
	return func() { w.memory.release(mb); w.Metrics.Reserved(-mb << 20) }
}

// readSpec reads what the job's owner submitted from S3.
func (w *Worker) readSpec(ctx context.Context, j record.Record, keys artifacts.Keys) (job.Spec, error) {
	b, err := w.Objects.GetBytes(ctx, keys.Spec(), maxSpecBytes)
	if err != nil {
		return job.Spec{}, fmt.Errorf("read spec: %w", err)
	}
	if err := approved(j, b); err != nil {
		return job.Spec{}, err
	}
	var spec job.Spec
	if err := json.Unmarshal(b, &spec); err != nil {
		return job.Spec{}, fmt.Errorf("read spec: %w", err)
	}
	return spec, nil
}

// approved fails where somebody let the job run with another spec than this: what was approved is what runs.
func approved(j record.Record, spec []byte) error {
	if err := j.CheckApproved(spec); err != nil {
		return &inputError{&job.Error{Code: job.CodeInputChanged, Message: "the job is not the one that was approved"}}
	}
	return nil
}
