package worker

import (
	"errors"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// result returns what the job's owner is shown of the outcome.
func (w *Worker) result(j record.Record, runtime job.Runtime, o sandbox.Outcome, out *output) job.Result {
	r := j.Failure(o.Status, nil, time.Now())
	r.Metadata = j.Metadata
	r.Timing.StartupMS = o.Startup.Milliseconds()
	r.ExitCode, r.Signal, r.Usage, r.Compile = &o.ExitCode, o.Signal, o.Usage, o.Compile
	r.Limit, r.StdoutTruncated, r.StderrTruncated = o.Limit, o.StdoutTruncated, o.StderrTruncated
	r.Stdout, r.Stderr = out.stdout.text(), out.stderr.text()
	skipped := slices.Concat(o.Skipped, out.skipped)
	r.Artifacts, r.ArtifactsSkipped, r.ArtifactsSkippedTotal = out.artifacts, skipped[:min(len(skipped), job.MaxSkipped)], o.SkippedTotal+len(out.skipped)
	runtime.OCIRuntime, runtime.ImageDigest, runtime.Snapshot, runtime.Isolation = o.OCIRuntime, o.ImageDigest, o.Snapshot, o.Isolation
	r.Runtime, r.LimitsEnforced, r.Worker = runtime, o.LimitsEnforced, w.ID
	return r
}

// link is the execution before one of a session.
type link struct {
	head    string // the digest of its statement's subject
	session string // that it is of, where that is another
}

// attest signs the result, if this worker has a key. It comes last: a change of the result after
// it would make the signature wrong. If the sandbox refused the program before it was given files
// from the bucket, nobody knows what they hold, and there is no attestation.
// before is the execution before it, of its session; zero for any other job.
func (w *Worker) attest(r *job.Result, spec job.Spec, input *attest.Input, limits job.Limits, out *output, before link) error {
	if w.Signer == nil {
		return nil
	}
	sum, err := input.Sum()
	if !input.Complete() {
		sum, err = attest.InputHash(spec)
	}
	if errors.Is(err, job.ErrKept) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Attestation, err = w.Signer.Attest(*r, attest.Run{
		InputHash: sum, Limits: limits, Stdout: out.stdout.attestation(), Stderr: out.stderr.attestation(), Previous: before.head, PreviousSession: before.session,
	})
	return err
}
