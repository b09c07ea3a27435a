package direct

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// listedRuns is how many runs a list has.
const listedRuns = 100

// StartRun is [producer.Runs.StartRun].
func (c *Client) StartRun(ctx context.Context, r job.PipelineRequest) (job.Run, error) {
	d, err := c.checkPipeline(ctx, r.Pipeline)
	if err != nil {
		return job.Run{}, err
	}
	params, err := d.Params(r.Params)
	if err != nil {
		return job.Run{}, err
	}
	n := record.NewRun{Key: r.IdempotencyKey}
	if n.Params, err = job.Marshal(params); err != nil {
		return job.Run{}, err
	}
	if n.Pipeline, err = job.Marshal(r.Pipeline); err != nil {
		return job.Run{}, err
	}
	if r.Pipeline.Callback != nil {
		n.Callback = r.Pipeline.Callback.URL
	}
	seconds := r.Pipeline.DeadlineSeconds
	if seconds == 0 {
		seconds = job.DefaultRunSeconds
	}
	n.Deadline = toMS(time.Now().Add(time.Duration(seconds) * time.Second))
	run, err := c.records.OpenRun(ctx, c.tenant, n)
	if err != nil {
		return job.Run{}, err
	}
	return wireRun(run)
}

// checkPipeline refuses a pipeline with all its faults, those among them that a submit of a step's job would find.
func (c *Client) checkPipeline(ctx context.Context, p job.Pipeline) (*pipelines.Definition, error) {
	d, err := pipelines.Parse(p)
	if err != nil {
		return nil, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return nil, err
	}
	var invalid job.Invalid
	for _, name := range slices.Sorted(maps.Keys(p.Steps)) {
		var faults job.Invalid
		if sample, ok := d.Samples[name]; ok {
			_, _, err = v.check(ctx, sample)
		} else {
			_, err = c.Template(ctx, p.Steps[name].Template)
			if errors.Is(err, job.ErrNoTemplate) {
				err = job.Invalid{{Field: "template", Value: p.Steps[name].Template, Message: "is not a template that this tenant has stored", Allowed: "a template's name, or name@revision"}}
			}
		}
		if err != nil && !errors.As(err, &faults) {
			return nil, err
		}
		for _, f := range faults {
			f.Field = "steps." + name + "." + f.Field
			invalid = append(invalid, f)
		}
	}
	if p.Callback != nil {
		var faults job.Invalid
		if err := v.checkCallback(p.Callback); errors.As(err, &faults) {
			invalid = append(invalid, faults...)
		} else if err != nil {
			return nil, err
		}
	}
	if invalid != nil {
		return nil, invalid
	}
	return d, nil
}

// Run is [producer.Runs.Run].
func (c *Client) Run(ctx context.Context, id string) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	r, err := c.records.GetRun(ctx, id)
	if err != nil {
		return job.Run{}, err
	}
	return wireRun(r)
}

// WaitRun is [producer.Runs.WaitRun]. It is woken by Redis and bears with outages of up to 30 s.
func (c *Client) WaitRun(ctx context.Context, id string) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	return await(ctx, c.done, id, func(ctx context.Context) (job.Run, bool, error) {
		r, err := c.Run(ctx, id)
		return r, err == nil && r.Status.Final(), err
	})
}

// CancelRun is [producer.Runs.CancelRun].
func (c *Client) CancelRun(ctx context.Context, id string) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	if err := c.records.CancelRun(ctx, id, record.RunCanceled); err != nil {
		return job.Run{}, err
	}
	return c.Run(ctx, id)
}

// GraphRun is [producer.Runs.GraphRun].
func (c *Client) GraphRun(ctx context.Context, id, format string) (string, error) {
	if !slices.Contains(pipelines.Formats(), pipelines.Format(format)) {
		return "", job.Invalid{{Field: "format", Value: job.Clip(format, 64), Message: "is not known", Allowed: "mermaid, dot, text"}}
	}
	if !c.ownsRun(id) {
		return "", job.ErrNotFound
	}
	r, err := c.records.GetRun(ctx, id)
	if err != nil {
		return "", err
	}
	l, err := readRun(r)
	if err != nil {
		return "", err
	}
	return pipelines.Graph(l.pipeline, l.state, pipelines.Format(format)), nil
}

// ListRuns is [producer.Runs.ListRuns].
func (c *Client) ListRuns(ctx context.Context) ([]string, error) {
	return c.records.ListRuns(ctx, c.tenant, listedRuns)
}

// ownsRun reports whether id is a run of this tenant, as far as its name tells.
func (c *Client) ownsRun(id string) bool {
	tenant, ok := job.TenantOfRun(id)
	return ok && tenant == c.tenant
}

// wireRun is a run as its tenant sees it.
func wireRun(r record.Run) (job.Run, error) {
	l, err := readRun(r)
	if err != nil {
		return job.Run{}, err
	}
	w := job.Run{
		ID: r.ID, Pipeline: l.pipeline.Name, Status: r.State, Reason: r.Cancel, Params: r.Params, Steps: map[string]job.RunStep{},
		CreatedAt: r.Created, Deadline: r.Deadline, Outputs: json.RawMessage(r.Outputs),
	}
	if !r.Finished.IsZero() {
		w.FinishedAt = &r.Finished
	}
	for name, step := range l.pipeline.Steps {
		need := l.state.Need(l.pipeline, name)
		s := job.RunStep{
			Status: string(need.Status), Why: l.state.Steps[name].Verdict.Why, Needs: step.Needs,
			Count: need.Count, Succeeded: need.Succeeded, Failed: need.Failed,
		}
		for _, i := range slices.Sorted(maps.Keys(r.Items[name])) {
			item := r.Items[name][i]
			j := job.RunJob{Index: i, Try: item.Try, Status: string(item.Status), Why: item.Why}
			if item.Status != record.Refused {
				j.ID = job.StepJobID(r.ID, name, i, item.Try)
			}
			s.Jobs = append(s.Jobs, j)
		}
		w.Steps[name] = s
	}
	return w, nil
}
