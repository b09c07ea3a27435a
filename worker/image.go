package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// builtRuntimes returns the runtimes that this worker can run, and the names that jobs give them.
// The others are logged, once. It fails if Podman doesn't answer: what was offered last stays.
func (w *Worker) builtRuntimes(ctx context.Context) (list []fleet.Runtime, names []string, err error) {
	var unbuilt []string
	for _, r := range w.Runtimes.List() {
		digest, err := w.Sandboxes.Image(ctx, r.Image())
		switch {
		case errors.Is(err, sandbox.ErrNoImage):
			if r.Core { // an operator asks for the others by name
				unbuilt = append(unbuilt, r.Name)
			}
			continue
		case errors.Is(err, sandbox.ErrImageRefused):
			unbuilt = append(unbuilt, fmt.Sprintf("%s (%v)", r.Name, err))
			continue
		case err != nil:
			return nil, nil, err
		}
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			names = append(names, fleet.OfferName(name, w.Isolation))
		}
		list = append(list, fleet.Runtime{
			Name: r.Name, Version: r.Version, Aliases: r.Aliases, File: r.File,
			Image: r.Image(), ImageDigest: digest, Limits: r.Limits, Compiles: len(r.Compile) > 0, Isolation: w.published(), Sessions: w.hasSessions(r), Languages: w.languages(r), Warm: w.Sandboxes.WarmOf(r.Image()),
		})
	}
	if !slices.Equal(unbuilt, w.unbuilt) {
		w.unbuilt = unbuilt
		if len(unbuilt) > 0 {
			w.Log.Warn("runtimes without an image are not offered: `glovebox runtimes build` builds them", "runtimes", strings.Join(unbuilt, ", "))
		}
	}
	return list, names, nil
}

// published is the worker's isolation as others read it.
func (w *Worker) published() job.Isolation {
	if w.Isolation == job.GVisor {
		return ""
	}
	return w.Isolation
}

// images returns those that jobs may bring to this worker: its operator allows them, they
// are in Podman's store, and nothing about them changes how they would be isolated. The others
// are logged, once. It fails if Podman doesn't answer.
func (w *Worker) images(ctx context.Context) ([]string, error) {
	var offered []string
	for _, image := range w.Images {
		_, err := w.Sandboxes.Image(ctx, image)
		problem := ""
		switch {
		case err == nil:
			offered = append(offered, image)
		case errors.Is(err, sandbox.ErrNoImage):
			problem = "it is not in the Podman user's store: infra/podman.sh pull or load it"
		case errors.Is(err, sandbox.ErrImageRefused):
			problem = err.Error()
		default:
			return nil, err
		}
		if problem != "" && w.missing[image] != problem {
			w.Log.Warn("image is allowed but not offered", "image", image, "reason", problem)
		}
		w.missing[image] = problem
	}
	return offered, nil
}

// imageProgram returns what the sandbox runs in an image that the job brings. The api has
// checked that the image is allowed; this worker doesn't rely on that.
func (w *Worker) imageProgram(ctx context.Context, j record.Record, spec job.Spec, input *attest.Input) (sandbox.Program, job.Runtime, error) {
	if !slices.Contains(w.Images, spec.Image) || len(spec.Command) == 0 {
		return sandbox.Program{}, job.Runtime{}, imageError(spec.Image, "is not allowed by the operator of the worker that got the job", nil)
	}
	imageCtx, cancel := context.WithTimeout(ctx, w.ImageTimeout)
	defer cancel()
	_, err := w.Sandboxes.Image(imageCtx, spec.Image)
	switch {
	case errors.Is(err, sandbox.ErrNoImage):
		return sandbox.Program{}, job.Runtime{}, imageError(spec.Image, "is not on the worker that got the job", err)
	case errors.Is(err, sandbox.ErrImageRefused):
		return sandbox.Program{}, job.Runtime{}, imageError(spec.Image, "is refused by the worker that got the job", err)
	case err != nil:
		return sandbox.Program{}, job.Runtime{}, err
	}
	files, _, err := w.inputs(ctx, j, spec, "", input)
	if err != nil {
		return sandbox.Program{}, job.Runtime{}, err
	}
	stdin, err := spec.StdinBytes()
	if err != nil {
		return sandbox.Program{}, job.Runtime{}, fmt.Errorf("read stdin: %w", err)
	}
	return sandbox.Program{
		JobID: j.ID, Epoch: j.Epoch, Image: spec.Image, Command: spec.Command,
		Env: spec.Env, Files: files, Stdin: stdin, MergeStderr: spec.MergeStderr, TruncateOutput: spec.TruncateOutput,
		Limits: limitsOf(spec, runtimes.Runtime{}), Isolation: spec.Isolation, Fresh: spec.Fresh,
	}, job.Runtime{Image: spec.Image}, nil
}

// imageError has a message about the image for the job's owner, and a cause for the log.
func imageError(image, problem string, cause error) error {
	public := &job.Error{Code: job.CodeImageUnavailable, Message: fmt.Sprintf("the image %s %s", image, problem)}
	if cause == nil {
		return public
	}
	return fmt.Errorf("%w: %w", public, cause)
}
