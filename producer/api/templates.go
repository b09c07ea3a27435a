package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type setTemplateInput struct {
	Name string `path:"name" doc:"The template's name: 1 to 64 lower-case letters, digits, - and _."`
}

type templateInput struct {
	Name string `path:"name" doc:"The template's name, or name@revision for one that is not the newest."`
}

type templateNameInput struct {
	Name string `path:"name" doc:"The template's name."`
}

type runTemplateInput struct {
	Name           string `path:"name" doc:"The template's name, or name@revision for one that is not the newest."`
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the job has ended or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body." example:"order-1234"`
}

type templateOutput struct{ Body job.Template }

type templatesOutput struct{ Body producer.TemplateList }

// templateRoutes store jobs under names, and start them.
func (a *API) templateRoutes(h huma.API, d documenter) {
	set := d.operation("set-template", http.MethodPut, "/v1/templates/{name}", "Store a template",
		"Stores a job with parameters under a name, as its next revision. The newest 50 are kept. What the job would be refused for is said now, except for what depends on parameters.",
		d.answers(200, "The revision that is the newest now", d.schema(job.Template{})), d.problems(400, 401, 409, 413, 415, 422, 503))
	set.MaxBodyBytes = recordBody
	set.RequestBody = jsonBody()
	huma.Register(h, set, a.setTemplate)
	set.RequestBody.Content["application/json"].Schema = d.schema(producer.TemplateRequest{})

	huma.Register(h, d.operation("list-templates", http.MethodGet, "/v1/templates", "List templates",
		"The tenant's templates by name, with their newest revisions.", d.problems(401, 503)), a.listTemplates)
	huma.Register(h, d.operation("get-template", http.MethodGet, "/v1/templates/{name}", "Get a template",
		"The newest revision, or with name@3 the third.", d.problems(401, 404, 503)), a.getTemplate)
	remove := d.operation("delete-template", http.MethodDelete, "/v1/templates/{name}", "Delete a template",
		"Deletes a template with all its revisions. Jobs that it started go on.", d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteTemplate)

	run := d.operation("run-template", http.MethodPost, "/v1/templates/{name}/run", "Run a template",
		"Makes a job of the newest revision, or with name@3 of the third, as POST /v1/jobs does. The job's metadata says which, as "+job.TemplateKey+". Parameters are checked against the template's schema, and put where the template points at them, never into text.",
		d.answers(200, "The job has ended: its result", d.result), d.answers(202, "The job is accepted", d.record),
		d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	run.DefaultStatus = http.StatusAccepted
	run.MaxBodyBytes = recordBody
	run.RequestBody = jsonBody()
	huma.Register(h, run, a.runTemplate)
	run.RequestBody.Content["application/json"].Schema = d.schema(producer.RunRequest{})
}

func (a *API) setTemplate(ctx context.Context, in *setTemplateInput) (*templateOutput, error) {
	request, done, err := readBody[producer.TemplateRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	t, err := a.tenantClient(ctx).SetTemplate(ctx, in.Name, request)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	noteOf(ctx).object = t.Ref()
	return &templateOutput{t}, nil
}

func (a *API) listTemplates(ctx context.Context, _ *struct{}) (*templatesOutput, error) {
	list, err := a.tenantClient(ctx).ListTemplates(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &templatesOutput{producer.TemplateList{Templates: list}}, nil
}

func (a *API) getTemplate(ctx context.Context, in *templateInput) (*templateOutput, error) {
	t, err := a.tenantClient(ctx).Template(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &templateOutput{t}, nil
}

func (a *API) deleteTemplate(ctx context.Context, in *templateNameInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteTemplate(ctx, in.Name); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}

func (a *API) runTemplate(ctx context.Context, in *runTemplateInput) (*jobOutput, error) {
	request, done, err := readBody[producer.RunRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if request.IdempotencyKey, err = idempotencyKey(request.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	client := a.tenantClient(ctx)
	j, err := client.RunTemplate(ctx, in.Name, request)
	done() // a wait holds nothing of the body
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.submitted(ctx, client, j, in.Prefer), nil
}

// valueSchema is that of job.Value, which is one of two things.
func valueSchema() *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		text(),
		{
			Type: huma.TypeObject, Required: []string{"from"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{"from": {
				Type: huma.TypeString, Description: "A JSON pointer (RFC 6901). Text that it finds is taken as it is, all else as JSON.",
				Examples: []any{"/params/ref"},
			}},
		},
	}}
}
