package direct

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// SetTemplate is [producer.Templates.SetTemplate].
func (c *Client) SetTemplate(ctx context.Context, name string, r producer.TemplateRequest) (job.Template, error) {
	t := job.Template{Name: name, Params: r.Params, Spec: r.Spec, Pipeline: r.Pipeline}
	if err := job.CheckTemplateName(name); err != nil {
		return t, err
	}
	if string(t.Params) == "null" {
		t.Params = nil
	}
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return t, err
	}
	if t.Params != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, t.Params); err != nil {
			return t, fmt.Errorf("encode schema: %w", err)
		}
		t.Params = compact.Bytes()
	}
	if t.Pipeline != nil {
		if err := c.checkSteps(ctx, t); err != nil {
			return t, err
		}
		return c.records.SetTemplate(ctx, c.tenant, t)
	}
	sample, err := templates.Check(t.Spec, schema)
	if err != nil {
		return t, err
	}
	if _, err := c.LimitsOf(ctx, sample); err != nil {
		return t, inSpec(err)
	}
	return c.records.SetTemplate(ctx, c.tenant, t)
}

// checkSteps refuses a template whose pipeline no run could be started of.
func (c *Client) checkSteps(ctx context.Context, t job.Template) error {
	var invalid job.Invalid
	if !reflect.ValueOf(t.Spec).IsZero() {
		invalid = append(invalid, job.FieldError{Field: "spec", Message: "is given beside pipeline", Allowed: "one of the two"})
	}
	if t.Pipeline.Params != nil {
		invalid = append(invalid, job.FieldError{Field: "pipeline.params", Message: "is given inside of a template", Allowed: "params beside pipeline"})
	}
	if invalid != nil {
		return invalid
	}
	_, err := c.checkPipeline(ctx, t.Steps(), true)
	if errors.As(err, &invalid) {
		for i := range invalid {
			invalid[i].Field = "pipeline." + invalid[i].Field
		}
		return invalid
	}
	return err
}

// inSpec says of wrong fields of a job that they are in a spec.
func inSpec(err error) error {
	var invalid job.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	moved := make(job.Invalid, len(invalid))
	for i, f := range invalid {
		f.Field = "spec." + f.Field
		moved[i] = f
	}
	return moved
}

// inFilled is inSpec of a job that was filled in. The idempotency key is no part of the spec: it came with the request.
func inFilled(err error) error {
	var invalid job.Invalid
	if !errors.As(inSpec(err), &invalid) {
		return err
	}
	for i := range invalid {
		if invalid[i].Field == "spec.idempotency_key" {
			invalid[i].Field = "idempotency_key"
		}
	}
	return invalid
}

// Template is [producer.Templates.Template].
func (c *Client) Template(ctx context.Context, ref string) (job.Template, error) {
	name, revision, err := job.ParseTemplateRef(ref)
	if err != nil {
		return job.Template{}, err
	}
	return c.records.Template(ctx, c.tenant, name, revision)
}

// ListTemplates is [producer.Templates.ListTemplates].
func (c *Client) ListTemplates(ctx context.Context) ([]producer.TemplateHead, error) {
	heads, err := c.records.Templates(ctx, c.tenant)
	list := make([]producer.TemplateHead, len(heads))
	for i, h := range heads {
		list[i] = producer.TemplateHead{Name: h.Name, Revision: h.Revision, CreatedAt: h.Created}
	}
	return list, err
}

// DeleteTemplate is [producer.Templates.DeleteTemplate].
func (c *Client) DeleteTemplate(ctx context.Context, name string) error {
	if !job.ValidTemplateName(name) {
		return job.ErrNoTemplate
	}
	return c.records.DeleteTemplate(ctx, c.tenant, name)
}

// RunTemplate is [producer.Templates.RunTemplate].
func (c *Client) RunTemplate(ctx context.Context, ref string, r producer.RunRequest) (producer.Job, error) {
	n := record.NewJob{ID: job.NewID(c.tenant), Key: r.IdempotencyKey}
	if n.Key != "" {
		// What is compared is what was asked for: a template that has changed since is no conflict.
		asked, err := json.Marshal(struct {
			Template string
			Params   json.RawMessage
		}{ref, r.Params})
		if err != nil {
			return producer.Job{}, job.Invalid{{Field: "params", Message: "is not JSON", Allowed: "a JSON object"}}
		}
		if j, err := c.replay(ctx, &n, asked); !errors.Is(err, job.ErrNotFound) {
			return j, err
		}
	}
	t, err := c.Template(ctx, ref)
	if err != nil {
		return producer.Job{}, err
	}
	if t.Pipeline != nil {
		return producer.Job{}, job.ErrIsPipeline
	}
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return producer.Job{}, err
	}
	params, err := schema.Params(r.Params)
	if err != nil {
		return producer.Job{}, err
	}
	spec, err := templates.Fill(t, params)
	if err != nil {
		return producer.Job{}, err
	}
	spec.IdempotencyKey = r.IdempotencyKey
	return c.acceptFilled(ctx, n, spec)
}

// filledWeight is how many times its size a job that was filled in takes while it is encoded and
// stored. Its request was small, and may have taken no memory for that.
const filledWeight = 4

// acceptFilled creates the job that a template was filled in for.
func (c *Client) acceptFilled(ctx context.Context, n record.NewJob, spec job.Spec) (producer.Job, error) {
	size := len(spec.Source) + len(spec.Stdin) + len(spec.StdinBase64)
	for _, text := range spec.Args {
		size += len(text)
	}
	for _, text := range spec.Env {
		size += len(text)
	}
	for _, f := range spec.Files {
		size += len(f.Content) + len(f.ContentBase64)
	}
	held := &reservation{Memory: c.memory}
	if err := held.Take(ctx, min(filledWeight*int64(size), mostTaken)); err != nil {
		return producer.Job{}, err
	}
	defer held.keep(0)
	j, err := c.accept(ctx, n, spec)
	return j, inFilled(err)
}
