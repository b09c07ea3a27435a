package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// leftAtOnce is how many jobs' results are read at once.
const leftAtOnce = 16

// contextOf is what a step can point at.
func (c *Client) contextOf(ctx context.Context, d *pipelines.Definition, l *liveRun, name string) (pipelines.Context, error) {
	params, err := paramsOf(l)
	known := pipelines.Context{Params: params, Needs: map[string]pipelines.Need{}}
	for _, need := range d.Steps[name].Needs {
		if err != nil {
			break
		}
		known.Needs[need], err = c.need(ctx, l, need, d.Reads(name, need))
	}
	return known, err
}

func paramsOf(l *liveRun) (map[string]any, error) {
	v, err := jsonvalue.Decode(l.Params)
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("read parameters of run %s: %w", l.ID, errors.Join(err, errors.ErrUnsupported))
	}
	return params, nil
}

// need is a step that has ended, with what its jobs have left if that is to be read.
func (c *Client) need(ctx context.Context, l *liveRun, name string, read bool) (pipelines.Need, error) {
	if need, ok := l.needs[name]; ok {
		return need, nil
	}
	need := l.state.Need(l.pipeline, name)
	if !read {
		return need, nil
	}
	outputs := int64(0) // bytes of all jobs
	for first := 0; first < need.Count; first += leftAtOnce {
		ended, sizes := make([]pipelines.Ended, min(leftAtOnce, need.Count-first)), [leftAtOnce]int64{}
		reads, reading := errgroup.WithContext(ctx)
		for i := range ended {
			reads.Go(func() (err error) {
				ended[i], sizes[i], err = c.left(reading, l, name, first+i)
				return err
			})
		}
		if err := reads.Wait(); err != nil {
			return need, err
		}
		for i, e := range ended {
			if outputs += sizes[i]; outputs > job.MaxStepOutputsBytes && e.Fault == "" {
				e.Outputs, e.Fault = nil, fmt.Sprintf("the jobs' %s have more than %d bytes together", job.OutputsFile, job.MaxStepOutputsBytes)
			}
			need.Jobs = append(need.Jobs, e)
		}
	}
	l.needs[name] = need
	return need, nil
}

// left is what a job of a run has left, and the size of its outputs: nothing, if it never was, is gone or can't be read. Only where Redis or
// the bucket is away that is not known yet, and an error.
func (c *Client) left(ctx context.Context, l *liveRun, name string, index int) (e pipelines.Ended, size int64, err error) {
	item := l.state.Steps[name].Items[index]
	e = pipelines.Ended{ID: l.JobID(name, index, item.Try)}
	r, result, err := c.ended(ctx, e.ID)
	switch {
	case errors.Is(err, job.ErrNotFound), errors.Is(err, artifacts.ErrNotFound):
		e.Gone = item.Status == job.Succeeded
		return e, 0, nil
	case unreadable(err):
		e.Gone, e.Fault = true, job.Clip(err.Error(), 200)
		return e, 0, nil
	case err != nil:
		return e, 0, fmt.Errorf("read result of job %s: %w", e.ID, err)
	}
	e.Artifacts = result.Artifacts
	for i := range e.Artifacts {
		e.Artifacts[i].Chart = nil // up to 256 KiB, of each of thousands of jobs
	}
	at := slices.IndexFunc(e.Artifacts, func(a job.Artifact) bool { return a.Name == job.OutputsFile })
	if at < 0 {
		return e, 0, nil
	}
	if size = e.Artifacts[at].Size; size > job.MaxOutputsBytes {
		e.Fault = fmt.Sprintf("%s has %d bytes, and up to %d are read", job.OutputsFile, size, job.MaxOutputsBytes)
		return e, 0, nil
	}
	f, err := locate(r, result, producer.ArtifactPath(job.OutputsFile))
	if err != nil {
		return e, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	text, err := c.objects.GetBytes(ctx, f.Key, job.MaxOutputsBytes)
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		e.Gone = item.Status == job.Succeeded
		return e, 0, nil
	case errors.Is(err, artifacts.ErrTooLarge):
		e.Fault = job.OutputsFile + " is larger than the result says"
		return e, 0, nil
	case err != nil:
		return e, 0, err
	}
	if e.Outputs, err = pipelines.ParseOutputs(text); err != nil {
		e.Fault = err.Error()
	}
	return e, int64(len(text)), nil
}
