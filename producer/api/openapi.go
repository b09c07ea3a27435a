package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/tools"
)

// The two kinds of token: a tenant's, and the operator's.
const (
	bearerScheme = "token"
	adminScheme  = "admin"
)

// routes registers every route and makes the OpenAPI document of them.
func (a *API) routes(mux *listedMux, version string) error {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	format := huma.Format{Marshal: marshal, Unmarshal: json.Unmarshal}
	h := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Glovebox", Version: version,
				Description: "Runs untrusted code from a queue in gVisor sandboxes, stores the files and charts it makes, and posts a signed result to your webhook.",
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					bearerScheme: {Type: "http", Scheme: "bearer", Description: "A tenant's token; the roles are the scopes that it needs."},
					adminScheme:  {Type: "http", Scheme: "bearer", Description: "The operator's token, GLOVEBOX_ADMIN_TOKEN."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{a.ours},
	})
	h.UseMiddleware(a.authenticate, a.refuseLargeBody, offerBody)
	d := documenter{schemas: schemas}
	d.spec, d.record, d.result = d.schema(job.Spec{}), d.schema(job.Summary{}), d.schema(job.Result{})
	d.problem = d.schema(producer.Problem{})

	submit := d.operation("submit-job", http.MethodPost, "/v1/jobs", "Submit a job",
		"Accepts a job durably. With Prefer: wait=30 the answer is the result, if there is one within 30 seconds. The same job again under the same idempotency key is the first one, as it is by now. "+withEvents,
		d.answersOrEvents("The job has ended: its result", d.result), d.answers(202, "The job is accepted", d.record),
		d.problems(400, 401, 402, 409, 410, 413, 415, 422, 503))
	submit.DefaultStatus = http.StatusAccepted
	submit.MaxBodyBytes = a.bodyLimit // of what readBody reads
	submit.RequestBody = jsonBody()
	submit.Middlewares = huma.Middlewares{submission{a, a.submitSent}.orEvents}
	huma.Register(h, submit, a.submit)
	submit.RequestBody.Content["application/json"].Schema = d.spec

	huma.Register(h, d.operation("get-job", http.MethodGet, "/v1/jobs/{id}", "Get a job",
		"Answers the job's result once it has ended, and its record before. With Prefer: wait=30 the answer is held until the job has ended or 30 seconds have passed; then it is 202.",
		d.answers(200, "The job's result; without Prefer, its record if it has not ended", &huma.Schema{OneOf: []*huma.Schema{d.result, d.record}}),
		d.answers(202, "The time is up and the job has not ended", d.record), d.problems(401, 404, 503)), a.get)
	huma.Register(h, d.operation("cancel-job", http.MethodDelete, "/v1/jobs/{id}", "Cancel or purge a job",
		"Ends a queued job at once and asks for the end of a running one. Cancelling a canceled job again changes nothing. A token without the scope read is told the job's id, status and times. With purge=true, deletes everything that is kept of a job that has ended, instead: its record, result and files; a webhook that is still to be delivered is not.",
		d.answers(200, "The job is canceled: its result", d.result), d.answers(202, "The job runs and was asked to stop", d.record),
		d.answers(204, "The job is purged", nil), d.problems(401, 404, 409, 422, 503)), a.cancel)
	describePurge(h.OpenAPI().Paths["/v1/jobs/{id}"].Delete, "Delete everything that is kept of the job, which has to have ended, instead of cancelling it.")
	huma.Register(h, d.operation("list-jobs", http.MethodGet, "/v1/jobs", "List jobs",
		"Answers the records of the tenant's jobs, newest first, as long as they are kept; a job's result, and with it startup_ms, is at GET /v1/jobs/{id}. Where next_cursor is, there may be more: a page looks at a bounded number of jobs, so it can hold fewer than limit, or none, and not be the last.",
		d.problems(401, 422, 503)), a.list)
	describeList(h.OpenAPI().Paths["/v1/jobs"].Get)
	huma.Register(h, d.operation("list-runtimes", http.MethodGet, "/v1/runtimes", "List runtimes",
		"What workers have published: the languages that jobs can name, and the images of one's own that the operator allows.", d.problems(401, 503)), a.runtimes)
	huma.Register(h, d.operation("list-keys", http.MethodGet, "/v1/keys", "List attestation keys",
		"The public keys that workers sign results with, newest first, and those that they did as long as there are results that they signed. The document is what glovebox verify --keys reads.",
		d.problems(401, 503)), a.keys)
	huma.Register(h, d.operation("list-deliveries", http.MethodGet, "/v1/deliveries", "List webhook messages of a job",
		"What was, or will be, posted about the job, to its callback and to the tenant's endpoints, and how the last attempts went.", d.problems(401, 404, 422, 503)), a.deliveries)

	public := func(op huma.Operation) huma.Operation {
		delete(op.Responses, "403")
		delete(op.Responses, "429")
		return op
	}
	huma.Register(h, public(d.operation("health", http.MethodGet, "/healthz", "Does the process answer?", "")), a.health)
	huma.Register(h, public(d.operation("ready", http.MethodGet, "/readyz", "Would a job be accepted now?",
		"200 when a job submitted now would be accepted durably.", d.problems(503))), a.readyz)

	a.inputRoute(h, d)
	a.executeRoute(h, d)
	a.batchRoutes(mux, h, d)
	a.uploadRoutes(h, d)
	a.secretRoutes(h, d)
	a.templateRoutes(h, d)
	a.problemRoutes(h, d)
	a.hookRoutes(mux, h, d)
	a.scheduleRoutes(h, d)
	a.approvalRoutes(h, d)
	a.runRoutes(h, d)
	a.usageRoutes(h, d)
	a.sessionRoutes(h, d)
	a.transcriptRoutes(mux, h.OpenAPI(), d)
	a.sessionFileRoutes(mux, h.OpenAPI(), d)
	a.webhookRoutes(h, d)
	a.endpointRoutes(h, d)
	a.tenantRoutes(h, d)
	a.auditRoute(h, d)
	a.fileRoutes(mux, h.OpenAPI(), d)
	a.eventRoute(mux, h.OpenAPI(), d)
	a.toolRoutes(mux, h.OpenAPI(), d)
	return a.document(mux, h.OpenAPI(), schemas)
}

// describePurge says in the OpenAPI document what the text of purge is.
func describePurge(op *huma.Operation, description string) {
	for _, p := range op.Parameters {
		if p.Name == "purge" {
			p.Description = description
			p.Schema = &huma.Schema{Type: huma.TypeBoolean, Default: false}
		}
	}
}

// fileRoutes are plain handlers: they redirect, and names hold slashes.
func (a *API) fileRoutes(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	add := func(pattern, id, path, summary string, which func(*http.Request) string, params ...*huma.Param) {
		mux.HandleFunc("GET "+pattern, a.file(which))
		op := d.operation(id, http.MethodGet, path, summary,
			"Redirects to the bucket for a few minutes; a short output is answered at once. The token in the URLs of a result is enough; without it, the tenant's own is needed.",
			d.answers(200, "The text itself", nil), d.answers(302, "The file is at Location", nil), d.problems(401, 403, 404, 503))
		op.Security = append(op.Security, map[string][]string{})
		op.Parameters = append([]*huma.Param{{Name: "id", In: "path", Required: true, Schema: text()}}, params...)
		op.Parameters = append(op.Parameters, &huma.Param{Name: "token", In: "query", Description: "Capability from a result's URL.", Schema: text()})
		doc.AddOperation(&op)
	}
	constant := func(path string) func(*http.Request) string { return func(*http.Request) string { return path } }
	add("/v1/jobs/{id}/stdout", "get-stdout", "/v1/jobs/{id}/stdout", "Read the whole standard output", constant(producer.Stdout))
	add("/v1/jobs/{id}/stderr", "get-stderr", "/v1/jobs/{id}/stderr", "Read the whole standard error", constant(producer.Stderr))
	add("/v1/jobs/{id}/artifacts/{name...}", "get-artifact", "/v1/jobs/{id}/artifacts/{name}", "Download an artifact",
		func(r *http.Request) string { return producer.ArtifactPath(r.PathValue("name")) },
		&huma.Param{Name: "name", In: "path", Required: true, Description: "The artifact's name; it may hold slashes.", Schema: text()})
}

// document serves what was registered. It is complete from here on.
func (a *API) document(mux *listedMux, doc *huma.OpenAPI, schemas huma.Registry) error {
	delete(schemas.Map(), "ErrorModel") // huma's own form of errors, which no route answers
	delete(schemas.Map(), "ErrorDetail")
	requests := map[string]bool{
		"ExecuteRequest": true, "BatchRequest": true, "BatchLine": true, "BatchOptions": true, "Spec": true, "File": true, "Callback": true, "Limits": true,
		"TenantRequest": true, "TermsRequest": true, "TokenRequest": true, "SecretRequest": true, "RotateRequest": true, "EndpointSettings": true, "EndpointFilter": true, "EndpointChange": true, "RecoverRequest": true, "Terms": true, "Quotas": true,
		"TemplateRequest": true, "TemplateSpec": true, "TemplateFile": true, "RunRequest": true,
		"HookRequest": true, "HookSettings": true, "HookScheme": true, "HookRotateRequest": true, "ScheduleSettings": true,
		"SessionSettings": true, "SessionChange": true, "SessionFork": true, "SessionExecution": true,
	}
	schemas.Map()["Value"] = valueSchema()
	schemas.Map()["Rendering"] = renderingSchema()
	chart := schemas.Schema(reflect.TypeFor[job.Chart](), true, "")
	chart.Description = schemas.Map()["Artifact"].Properties["chart"].Description
	schemas.Map()["Artifact"].Properties["chart"] = chart
	for name, s := range schemas.Map() {
		if !requests[name] {
			s.AdditionalProperties = nil // answers grow by addition
		}
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray && !requests[name] {
				p.Nullable = false // ours are empty, not null
			}
		}
	}
	most, err := json.Marshal(a.client.Maximums())
	if err != nil {
		return fmt.Errorf("document limits: %w", err)
	}
	var maximums map[string]float64
	if err := json.Unmarshal(most, &maximums); err != nil {
		return fmt.Errorf("document limits: %w", err)
	}
	for name, s := range schemas.Map()["Limits"].Properties {
		if m, ok := maximums[name]; ok {
			s.Maximum = &m
		}
	}
	text := sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(doc, "", "  ") }) // 36 ms of an api's start
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		b, err := text()
		if err != nil {
			a.writeError(w, r, fmt.Errorf("write OpenAPI document: %w", err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = w.Write(b) // the client may have left
	})
	return nil
}

// schemaName tells apart the types of two packages that have the same name.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[producer.Runtime]() {
		return "PublishedRuntime"
	}
	if t == reflect.TypeFor[job.Problem]() { // producer.Problem is what is answered
		return "GradingProblem"
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == reflect.TypeFor[tools.Answer]().PkgPath() {
		name = "Tool" + name
	}
	return name
}

func marshal(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // it is not read as HTML: nosniff, and a type of its own
	return e.Encode(v)
}

// jsonBody is the body of an operation that readBody reads. It has no schema before the
// operation is registered: else huma would read the body itself.
func jsonBody() *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {}}}
}

// renderingSchema is that of a [job.Rendering].
func renderingSchema() *huma.Schema {
	named := &huma.Schema{Type: huma.TypeObject, Required: []string{"artifact"}, Properties: map[string]*huma.Schema{"artifact": text()}}
	return &huma.Schema{OneOf: []*huma.Schema{text(), named}}
}

func text() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

// documenter writes operations down in one form.
type documenter struct {
	schemas                       huma.Registry
	spec, record, result, problem *huma.Schema
}

func (d documenter) schema(v any) *huma.Schema {
	return d.schemas.Schema(reflect.TypeOf(v), true, "")
}

func (d documenter) operation(id, method, path, summary, description string, responses ...map[string]*huma.Response) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
		Security: security(method, path), Responses: map[string]*huma.Response{},
		Tags: []string{strings.Split(strings.TrimPrefix(path, "/v1"), "/")[1]},
	}
	refusals := d.problems(http.StatusForbidden, http.StatusTooManyRequests)
	refusals["429"].Headers = map[string]*huma.Param{
		"Retry-After": {Description: "Seconds until it is worth to try again.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		"RateLimit":   {Description: "What is left of the tenant's quota of requests (draft-ietf-httpapi-ratelimit-headers).", Schema: text()},
	}
	for _, some := range append(responses, refusals) {
		for status, r := range some {
			op.Responses[status] = r
		}
	}
	op.Responses["default"] = d.problemResponse("A problem (RFC 9457)")
	return op
}

func (d documenter) answers(status int, description string, schema *huma.Schema) map[string]*huma.Response {
	r := &huma.Response{Description: description}
	if schema != nil {
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	return map[string]*huma.Response{fmt.Sprint(status): r}
}

// withEvents says what Accept: text/event-stream does.
const withEvents = "With Accept: text/event-stream the answer is the job's events up to its result, as GET /v1/jobs/{id}/events sends them, and Location says where to go on watching; a client that leaves cancels nothing. Where the accepted job can't be watched, the answer is 202."

// answersOrEvents is 200 with that, or with events for a client that asks for them.
func (d documenter) answersOrEvents(description string, schema *huma.Schema) map[string]*huma.Response {
	r := d.answers(http.StatusOK, description, schema)
	r["200"].Content[eventStream] = d.events()
	r["200"].Description += "; or its events"
	return r
}

func (d documenter) problems(statuses ...int) map[string]*huma.Response {
	all := map[string]*huma.Response{}
	for _, s := range statuses {
		all[fmt.Sprint(s)] = d.problemResponse(http.StatusText(s))
	}
	return all
}

func (d documenter) problemResponse(description string) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{producer.ProblemMediaType: {Schema: d.problem}},
	}
}
