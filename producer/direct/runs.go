package direct

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// listedRuns is how many runs a page of the list has.
const listedRuns = 100

// StartRun is [producer.Runs.StartRun].
func (c *Client) StartRun(ctx context.Context, r job.PipelineRequest) (job.Run, error) {
	if err := r.Check(); err != nil {
		return job.Run{}, err
	}
	asked, err := job.Marshal(r)
	if err != nil {
		return job.Run{}, job.Invalid{{Field: "params", Message: "is not JSON", Allowed: "a JSON object"}}
	}
	if run, known, err := c.runOfKey(ctx, r.IdempotencyKey, asked); known {
		return run, err
	}
	n, p := record.NewRun{Key: r.IdempotencyKey, Asked: asked, Metadata: r.Metadata}, r.Pipeline
	if r.Template != "" {
		t, err := c.Template(ctx, r.Template)
		if err != nil {
			return job.Run{}, err
		}
		if t.Pipeline == nil {
			return job.Run{}, job.Invalid{{Field: "template", Value: r.Template, Message: "is a job and no pipeline", Allowed: "a template with a pipeline; POST /v1/templates/NAME/run makes a job"}}
		}
		n.Template, p = t.Ref(), t.Steps()
	}
	run, err := c.openRun(ctx, n, p, r.Params)
	if err != nil {
		return job.Run{}, err
	}
	return c.wireRun(run)
}

// runOfKey is the run that an idempotency key began, before anything is checked: what was accepted then may not be any more. known is false where there is none.
func (c *Client) runOfKey(ctx context.Context, key string, asked []byte) (run job.Run, known bool, err error) {
	if key == "" {
		return job.Run{}, false, nil
	}
	id, err := c.records.FindRunByKey(ctx, c.tenant, key, asked)
	if errors.Is(err, job.ErrNotFound) {
		return job.Run{}, false, nil
	}
	if err == nil {
		run, err = c.GetRun(ctx, id)
	}
	return run, true, err
}

// openRun begins a run of the pipeline, which it checks. A name that n has stays.
func (c *Client) openRun(ctx context.Context, n record.NewRun, p job.Pipeline, params json.RawMessage) (record.Run, error) {
	n.By = c.token
	held := &reservation{Memory: c.memory}
	if err := held.Take(ctx, filledWeight*job.MaxPipelineBytes); err != nil {
		return record.Run{}, err
	}
	defer held.keep(0)
	d, err := c.checkPipeline(ctx, p, n.Template == "" && n.RerunOf == "")
	if err != nil {
		return record.Run{}, err
	}
	if p.Callback != nil {
		terms, err := c.terms(ctx)
		if err != nil {
			return record.Run{}, err
		}
		if err := c.judgeCallback(terms, policy.KindPipeline, p.Callback, n.Metadata); err != nil {
			return record.Run{}, err
		}
	}
	read := d.Params
	if n.RerunOf != "" {
		read = d.FilledParams
	}
	filled, err := read(params)
	if err != nil {
		return record.Run{}, err
	}
	if n.Params, err = job.Marshal(filled); err != nil {
		return record.Run{}, err
	}
	if n.Pipeline, err = job.Marshal(p); err != nil {
		return record.Run{}, err
	}
	if p.Callback != nil {
		n.Callback = p.Callback.URL
	}
	n.Name, n.Trace = p.Name, tracing.Carried(ctx)
	n.Deadline = toMS(time.Now().Add(time.Duration(cmp.Or(p.DeadlineSeconds, job.DefaultRunSeconds)) * time.Second))
	return c.records.OpenRun(ctx, c.tenant, n)
}

// checkPipeline refuses a pipeline with all its faults, those among them that a submit of a step's job would find. Of one that is new, the parameters
// fit the templates that it runs; of another they did, and a template that has changed since may be that of a step which never begins.
func (c *Client) checkPipeline(ctx context.Context, p job.Pipeline, isNew bool) (*pipelines.Definition, error) {
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
			var done func()
			if done, err = c.checkOfProblem(ctx, sample.Problem); err != nil {
				return nil, err
			}
			_, _, err = v.check(ctx, sample)
			done()
			v.problems = nil
		} else {
			var t job.Template
			t, err = c.Template(ctx, p.Steps[name].Template)
			if t.Pipeline != nil {
				err = job.ErrIsPipeline
			}
			if err == nil {
				err = c.mayReadFor(ctx, t)
			}
			if err == nil && isNew {
				err = checkStepFrom(t, slices.Sorted(maps.Keys(p.Steps[name].From)))
			}
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

// checkStepFrom refuses names of parameters with which a template would refuse a step's job.
func checkStepFrom(t job.Template, names []string) error {
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return err
	}
	if invalid := append(schema.Missing(names), schema.Unknown(names)...); invalid != nil {
		return invalid
	}
	return nil
}

// GetRun is [producer.Runs.GetRun].
func (c *Client) GetRun(ctx context.Context, id string) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	r, err := c.takeRun(ctx, c.memory, id)
	if err != nil {
		return job.Run{}, err
	}
	return c.wireRun(r)
}

// runWeight is how many times its size a run takes: its verdicts and parameters decoded, and encoded to be sent.
const runWeight = 8

// takeRun reads a run, once there is memory for it, which the caller gives back.
func (c *Client) takeRun(ctx context.Context, memory Memory, id string) (record.Run, error) {
	size, err := c.records.RunSize(ctx, id)
	if err != nil {
		return record.Run{}, err
	}
	takes := min(runWeight*size, mostTaken)
	if err := memory.Take(ctx, takes); err != nil {
		return record.Run{}, err
	}
	r, err := c.records.GetRun(ctx, id)
	if err != nil {
		memory.Give(takes)
	}
	return r, err
}

// WaitRun is [producer.Runs.WaitRun]. It is woken by Redis and bears with outages of up to 30 s.
func (c *Client) WaitRun(ctx context.Context, id string) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	return await(ctx, c.done, id, func(ctx context.Context) (job.Run, bool, error) {
		state, err := c.records.StateOfRun(ctx, id)
		if err != nil || !state.Final() { // what it has in it takes memory once, when it is answered
			return job.Run{}, false, err
		}
		r, err := c.GetRun(ctx, id)
		return r, err == nil, err
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
	return c.GetRun(ctx, id)
}

// GraphRun is [producer.Runs.GraphRun].
func (c *Client) GraphRun(ctx context.Context, id, format string) (string, error) {
	if !slices.Contains(pipelines.Formats(), pipelines.Format(format)) {
		return "", job.Invalid{{Field: "format", Value: job.Clip(format, 64), Message: "is not known", Allowed: "mermaid, dot, text"}}
	}
	if !c.ownsRun(id) {
		return "", job.ErrNotFound
	}
	r, err := c.takeRun(ctx, c.memory, id)
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
func (c *Client) ListRuns(ctx context.Context, cursor string) (producer.RunPage, error) {
	after, ok := readCursor(cursor, func(s string) (record.Position, bool) { return record.ParseRunPosition(c.tenant, s) })
	if !ok {
		return producer.RunPage{}, job.Invalid{wrongCursor(cursor)}
	}
	held, err := c.takeListed(ctx, listedRuns)
	if err != nil {
		return producer.RunPage{}, err
	}
	runs, next, err := c.records.ListRuns(ctx, c.tenant, after, listedRuns)
	if err != nil {
		held.keep(0)
		return producer.RunPage{}, err
	}
	page, needed := producer.RunPage{Runs: make([]job.RunSummary, len(runs)), Next: writeCursor(next)}, int64(0)
	for i, r := range runs {
		needed += listed(r.Metadata)
		page.Runs[i] = job.RunSummary{ID: r.ID, Pipeline: r.Name, Template: r.Template, Status: r.State, Metadata: r.Metadata, CreatedAt: r.Created}
		if !r.Finished.IsZero() {
			page.Runs[i].FinishedAt = &r.Finished
		}
	}
	held.keep(needed)
	return page, nil
}

// ownsRun reports whether id is a run of this tenant, as far as its name tells.
func (c *Client) ownsRun(id string) bool {
	tenant, ok := job.TenantOfRun(id)
	return ok && tenant == c.tenant
}

// wireRun is a run as its tenant sees it.
func (c *Client) wireRun(r record.Run) (job.Run, error) {
	l, err := readRun(r)
	if err != nil {
		return job.Run{}, err
	}
	w := job.Run{
		ID: r.ID, RerunOf: r.RerunOf, Pipeline: l.pipeline.Name, Template: r.Template, Status: r.State, Reason: r.Cancel, Note: r.Note, Params: r.Params, Metadata: r.Metadata, Steps: map[string]job.RunStep{},
		CreatedAt: r.Created, Deadline: r.Deadline, Outputs: json.RawMessage(r.Outputs),
	}
	if !r.Finished.IsZero() {
		w.FinishedAt = &r.Finished
		if w.Outputs, err = c.linkOutputs(l); err != nil {
			return job.Run{}, err
		}
	}
	for name, step := range l.pipeline.Steps {
		need := l.state.Need(l.pipeline, name)
		s := job.RunStep{
			Status: string(need.Status), Why: l.state.Steps[name].Verdict.Why, Needs: step.Needs,
			Count: need.Count, Succeeded: need.Succeeded, Failed: need.Failed, KeptFrom: r.Kept[name].Run,
		}
		for _, i := range slices.Sorted(maps.Keys(l.state.Steps[name].Items)) { // else a worker has made it up
			item := r.Items[name][i]
			j := job.RunJob{Index: i, Try: item.Try, Status: string(item.Status), Why: item.Why}
			if item.Status != record.Refused {
				j.ID = r.JobID(name, i, item.Try)
			}
			s.Jobs = append(s.Jobs, j)
		}
		w.Steps[name] = s
	}
	return w, nil
}

// linkOutputs gives a URL to each artifact that the outputs point at. What a job has written of its own is left as
// it is, whatever it looks like.
func (c *Client) linkOutputs(l *liveRun) (json.RawMessage, error) {
	if c.links == nil || len(l.Outputs) == 0 {
		return l.Outputs, nil
	}
	outputs := map[string]json.RawMessage{}
	if err := json.Unmarshal(l.Outputs, &outputs); err != nil {
		return nil, fmt.Errorf("read outputs of run %s: %w", l.ID, err)
	}
	for name, value := range l.pipeline.Outputs {
		if !pipelines.IsArtifacts(value.From) || outputs[name] == nil {
			continue
		}
		found, err := jsonvalue.Decode(outputs[name])
		if err != nil {
			return nil, fmt.Errorf("read outputs of run %s: %w", l.ID, err)
		}
		if err := c.link(found, l.Expires()); err != nil {
			return nil, err
		}
		if outputs[name], err = job.Marshal(found); err != nil {
			return nil, err
		}
	}
	return job.Marshal(outputs)
}

// link adds a URL to each artifact in what a pointer to artifacts has found: one, or lists and objects of them.
func (c *Client) link(found any, expires time.Time) error {
	switch v := found.(type) {
	case []any:
		for _, one := range v {
			if err := c.link(one, expires); err != nil {
				return err
			}
		}
	case map[string]any:
		ref, isArtifact := v["artifact"].(string)
		if !isArtifact {
			return c.link(slices.Collect(maps.Values(v)), expires) // by name
		}
		id, name, _ := strings.Cut(ref, "/")
		if !c.owns(id) {
			return fmt.Errorf("link to %.100q: no artifact of this tenant", ref)
		}
		url, err := c.links.URL(id, producer.ArtifactPath(name), expires)
		if err != nil {
			return err
		}
		v["url"] = url
	}
	return nil
}
