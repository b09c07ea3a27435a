package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Templates is what a tenant does with jobs that it stores under a name, and starts with parameters.
// Safe for concurrent use.
type Templates interface {
	// SetTemplate stores a template as the next revision under that name, and returns it. One that is
	// there already makes no new revision. It fails with job.Invalid or job.ErrTooManyTemplates.
	SetTemplate(ctx context.Context, name string, r TemplateRequest) (job.Template, error)
	// Template returns the newest revision of "name", or that of "name@3". It fails with
	// job.ErrNoTemplate.
	Template(ctx context.Context, ref string) (job.Template, error)
	// ListTemplates lists them by name.
	ListTemplates(ctx context.Context) ([]TemplateHead, error)
	// DeleteTemplate forgets a template with all its revisions. Jobs that it started go on. It fails
	// with job.ErrNoTemplate.
	DeleteTemplate(ctx context.Context, name string) error
	// RunTemplate makes a job of "name" or "name@3", as Submit does. It fails as Submit does, with
	// job.Invalid for parameters that the template's schema refuses, or with job.ErrNoTemplate.
	RunTemplate(ctx context.Context, ref string, r RunRequest) (Job, error)
}

var _ Templates = (*Client)(nil)

// TemplateRequest is the body of PUT /v1/templates/{name}.
type TemplateRequest struct {
	Params json.RawMessage  `json:"params,omitempty" doc:"The JSON Schema of the parameters (draft 2020-12): an object's, without $ref, up to 16 KiB. Absent: the template has no parameters."`
	Spec   job.TemplateSpec `json:"spec,omitzero" doc:"The job, as POST /v1/jobs takes it. In args, env, stdin, files[].content and metadata a value may be {\"from\": \"/params/NAME\"}, which points at a parameter (RFC 6901)."`
	// Pipeline is what it starts instead of a job.
	Pipeline *job.Pipeline `json:"pipeline,omitempty" doc:"Instead of spec: a pipeline, whose parameters are params. POST /v1/runs, a hook or a schedule starts it."`
}

// RunRequest is the body of POST /v1/templates/{name}/run.
type RunRequest struct {
	Params json.RawMessage `json:"params,omitempty" doc:"The parameters, an object, up to 64 KiB. One that is left out has the schema's default."`
	// IdempotencyKey names the job as that of a Spec does. What is compared is the template's name and
	// Params.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. For 24 hours, the same run under the same key is answered with the first one's job; the header Idempotency-Key means the same." example:"order-1234"`
}

// TemplateHead is what a list says of a template.
type TemplateHead struct {
	Name      string    `json:"name" example:"report"`
	Revision  int64     `json:"revision" doc:"The newest."`
	CreatedAt time.Time `json:"created_at" doc:"When that was stored."`
}

// TemplateList is the answer of GET /v1/templates.
type TemplateList struct {
	Templates []TemplateHead `json:"templates" doc:"The tenant's templates by name." nullable:"false"`
}

const templatesPath = "/v1/templates"

// SetTemplate is [Templates.SetTemplate].
func (c *Client) SetTemplate(ctx context.Context, name string, r TemplateRequest) (job.Template, error) {
	var t job.Template
	if err := job.CheckTemplateName(name); err != nil {
		return t, err
	}
	err := c.send(ctx, http.MethodPut, templatesPath+"/"+name, r, &t)
	return t, err
}

// Template is [Templates.Template].
func (c *Client) Template(ctx context.Context, ref string) (job.Template, error) {
	var t job.Template
	path, err := templatePath(ref)
	if err != nil {
		return t, err
	}
	err = c.json(ctx, http.MethodGet, path, 0, nil, &t)
	return t, err
}

// ListTemplates is [Templates.ListTemplates].
func (c *Client) ListTemplates(ctx context.Context) ([]TemplateHead, error) {
	var list TemplateList
	err := c.json(ctx, http.MethodGet, templatesPath, 0, nil, &list)
	return list.Templates, err
}

// DeleteTemplate is [Templates.DeleteTemplate].
func (c *Client) DeleteTemplate(ctx context.Context, name string) error {
	if !job.ValidTemplateName(name) {
		return job.ErrNoTemplate // "..", say, would mean another URL
	}
	res, err := c.do(ctx, http.MethodDelete, templatesPath+"/"+name)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// RunTemplate is [Templates.RunTemplate]. With an idempotency key it bears with an API that is away, or
// an answer that gets lost, for up to 30 s.
func (c *Client) RunTemplate(ctx context.Context, ref string, r RunRequest) (Job, error) {
	path, err := templatePath(ref)
	if err != nil {
		return Job{}, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return Job{}, fmt.Errorf("encode parameters: %w", err)
	}
	return c.post(ctx, path+"/run", 0, b, r.IdempotencyKey != "")
}

func templatePath(ref string) (string, error) {
	if _, _, err := job.ParseTemplateRef(ref); err != nil {
		return "", err
	}
	return templatesPath + "/" + url.PathEscape(ref), nil
}
