package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// pingTimeout is how long Podman and S3 may each take to answer.
	pingTimeout = 10 * time.Second
	// probeTimeout bounds a whole probe, in which a sandbox has a minute to start.
	probeTimeout = 90 * time.Second
	// probeSpoolBytes has to fit into the spool.
	probeSpoolBytes = 1 << 20
)

// ProbeID is the job id of the program that a probe runs.
const ProbeID = "probe"

// ping fails if Podman or S3 is away, or an operator has drained the worker.
func (w *Worker) ping(ctx context.Context) error {
	if w.drained.Load() {
		return errDrainedByOperator
	}
	for _, ping := range []func(context.Context) error{w.Sandboxes.Ping, w.Objects.Ping} {
		bounded, cancel := context.WithTimeout(ctx, pingTimeout)
		err := ping(bounded)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// probe does what a job needs: it runs a program in a sandbox, stores an object and
// spools output. It fails if this worker can run no job. Nothing of a job takes part
// in it, so no job can make it fail: docs/adr/0004-outages.md.
func (w *Worker) probe(ctx context.Context) (err error) {
	defer caught("", &err)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := w.ping(ctx); err != nil {
		return err
	}
	if err := w.probeSandbox(ctx); err != nil {
		return fmt.Errorf("run a sandbox: %w", err)
	}
	storeCtx, stop := context.WithTimeout(ctx, pingTimeout)
	defer stop()
	if err := w.Objects.TryWrite(storeCtx); err != nil {
		return err
	}
	return w.probeSpool()
}

// probeSandbox runs a program of its own in the first image that is there. The program's outcome
// does not matter, if there is one.
func (w *Worker) probeSandbox(ctx context.Context) error {
	err := errors.New("there is no image")
	for _, image := range append(w.Runtimes.Images(), w.Images...) {
		var o sandbox.Outcome
		o, err = w.Sandboxes.Run(ctx, sandbox.Program{
			JobID: ProbeID, Epoch: 1, Image: image, Command: []string{"true"}, Limits: job.Limits{WallMS: 10_000}.Filled(job.Limits{}),
			Isolation: w.Isolation,
			Fresh:     true, // a warm one would not show that Podman can start any
		}, discardSink{})
		if err == nil && o.Silent {
			return errors.New("it fell silent")
		}
		if !errors.Is(err, sandbox.ErrNoImage) && !errors.Is(err, sandbox.ErrImageRefused) {
			return err
		}
	}
	return err
}

// discardSink is a sink that keeps nothing.
type discardSink struct{}

func (discardSink) Stdout([]byte) error                                      { return nil }
func (discardSink) Stderr([]byte) error                                      { return nil }
func (discardSink) Artifact(context.Context, string, int64, io.Reader) error { return nil }

// probeSpool writes to the spool as a long output does.
func (w *Worker) probeSpool() error {
	f, err := unnamedFile(w.SpoolDir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, probeSpoolBytes)); err != nil {
		return fmt.Errorf("spool output in %s: %w", w.SpoolDir, err)
	}
	return nil
}
