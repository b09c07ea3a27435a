package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/tools"
)

// toolRoutes are what models call: one table of tools, as each provider's API takes it, by plain
// HTTP, and by the Model Context Protocol.
func (a *API) toolRoutes(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	formats := make([]any, 0, len(tools.Formats()))
	for _, f := range tools.Formats() {
		formats = append(formats, string(f))
	}
	mux.HandleFunc("GET /v1/tools", a.listTools)
	list := d.operation("list-tools", http.MethodGet, "/v1/tools", "List the tools for models",
		"What a model can call, as OpenAI's chat completions, Anthropic's messages or MCP's tools/list have it: give the model's API the value of tools.",
		d.answers(200, "The tools", &huma.Schema{Type: huma.TypeObject, Required: []string{"tools"}, Properties: map[string]*huma.Schema{
			"tools": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeObject}},
		}}), d.problems(401, 422, 503))
	list.Parameters = []*huma.Param{{Name: "format", In: "query", Description: "Whose form; defaults to openai.", Schema: &huma.Schema{Type: huma.TypeString, Enum: formats}}}
	doc.AddOperation(&list)

	mux.HandleFunc("POST /v1/tools/{name}", a.callTool)
	call := d.operation("call-tool", http.MethodPost, "/v1/tools/{name}", "Call a tool for a model",
		"Does what a model asked for, and answers what it is to read. What is wrong with the arguments, and what the program did wrong, is an answer with is_error, too: the model can mend it.",
		d.answers(200, "What the model is to read", d.schema(tools.Answer{})), d.problems(400, 401, 404, 413, 415, 503))
	call.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Description: "The tool's name.", Schema: text()}}
	call.RequestBody = jsonBody()
	call.RequestBody.Content["application/json"].Schema = &huma.Schema{
		Type: huma.TypeObject, Required: []string{"arguments"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{"arguments": {
			Description: "The arguments: an object, or that object as JSON text, as some APIs answer it.",
			OneOf:       []*huma.Schema{{Type: huma.TypeObject}, text()},
		}},
	}
	doc.AddOperation(&call)

	mux.HandleFunc("POST /mcp", a.mcp)
	protocol := d.operation("mcp", http.MethodPost, "/mcp", "Speak the Model Context Protocol",
		"The same tools by the Model Context Protocol's streamable HTTP transport, without sessions: revisions 2025-03-26 to 2026-07-28.",
		d.answers(200, "JSON-RPC, or a stream of events that ends with it", nil), d.answers(202, "A notification was taken", nil), d.problems(401, 403, 413, 503))
	protocol.RequestBody = jsonBody()
	doc.AddOperation(&protocol)
}

// listTools answers the table of tools.
func (a *API) listTools(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	format := tools.Format(r.URL.Query().Get("format"))
	if format == "" {
		format = tools.OpenAI
	}
	languages, err := a.languages(r.Context(), c)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	list, err := tools.Describe(tools.Tools(languages), format)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"tools": list})
}

// callTool calls one.
func (a *API) callTool(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	tool, err := tools.Find(r.PathValue("name"))
	if err != nil {
		a.writeError(w, r, newProblem(job.CodeNotFound, err.Error()))
		return
	}
	for _, scope := range tool.Scopes {
		if err := c.may(scope); err != nil {
			noteOf(r.Context()).refused = true
			a.writeError(w, r, err)
			return
		}
	}
	body, done, err := a.toolText(w, r, c)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer done()
	release, err := a.toolCalls.acquire(c.tenant)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer release()
	arguments, err := toolArguments(r.Header.Get("Content-Type"), body)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	answer, err := tool.Call(r.Context(), a.toolCaller(r.Context(), c), arguments)
	if err != nil {
		return // nobody is left to read it
	}
	writeJSON(w, http.StatusOK, answer)
}

// toolArguments returns the arguments that a body holds: an object, or JSON text.
func toolArguments(contentType string, body []byte) ([]byte, error) {
	if err := checkMediaType(contentType); err != nil {
		return nil, err
	}
	request, err := strictjson.Decode[struct {
		Arguments json.RawMessage `json:"arguments"`
	}](body, "body")
	if err != nil || len(request.Arguments) == 0 {
		const what, want = "is not a call of a tool", `{"arguments": {…}} in UTF-8, with nothing else`
		if err == nil {
			return nil, bodyProblem(what, want)
		}
		return nil, bodyProblem(what+": "+err.Error(), want)
	}
	var quoted string
	if json.Unmarshal(request.Arguments, &quoted) == nil {
		return []byte(quoted), nil
	}
	return request.Arguments, nil
}

const (
	// toolBody is how large a call may be.
	toolBody = 4 << 20
	// toolWeight is how many times its size a call takes until it is answered: as it came, and as the
	// SDK and the tool have it.
	toolWeight = 4
	// toolMemory is for calls, a quarter of it of one tenant.
	toolMemory = 4 * toolWeight * toolBody
	// maxToolCalls is how many calls of one tenant may be under way in this process.
	maxToolCalls = 100
)

// toolText reads the body of a call whole. The memory that it takes is held until done: the SDK keeps the text as
// long as a call lasts.
func (a *API) toolText(w http.ResponseWriter, r *http.Request, c caller) (text []byte, done func(), err error) {
	limit := min(toolBody, a.bodyLimit)
	if r.ContentLength >= limit {
		w.Header().Set("Connection", "close")
		return nil, nil, tooLarge(limit)
	}
	held := &reservation{budget: a.toolBodies, tenant: c.tenant}
	text, err = a.readHeld(r.Context(), sentBody{w, r, limit}, held)
	if err == nil {
		err = held.add(r.Context(), (toolWeight-1)*int64(len(text)), bodyPatience)
	}
	if err != nil {
		held.release()
		return nil, nil, memoryProblem(err)
	}
	return text, held.release, nil
}

// toolCaller says for whom a tool is called.
func (a *API) toolCaller(ctx context.Context, c caller) tools.Caller {
	return tools.Caller{
		Glovebox: toolJobs{a.answering(ctx, c.tenant), a, c.tenant}, MaxWait: min(a.maxWait, tools.MaxWait),
		Report: func(err error) {
			a.log.ErrorContext(ctx, "a tool's call failed", "request_id", requestID(ctx), "error", err)
		},
	}
}

// toolJobs is a tenant's client whose waits end with the API, whose watches are counted, and of whose
// jobs the audit log is told.
type toolJobs struct {
	*direct.Client
	api    *API
	tenant string
}

func (t toolJobs) Submit(ctx context.Context, spec job.Spec) (producer.Job, error) {
	j, err := t.Client.Submit(ctx, spec)
	noteOf(ctx).tell("job.submit", j.ID, err)
	return j, err
}

func (t toolJobs) StartSession(ctx context.Context, s job.SessionSettings) (job.Session, error) {
	x, err := t.Client.StartSession(ctx, s)
	noteOf(ctx).tell("session.start", x.ID, err)
	return x, err
}

func (t toolJobs) ExecuteInSession(ctx context.Context, session string, e job.SessionExecution) (producer.Job, error) {
	j, err := t.Client.ExecuteInSession(ctx, session, e)
	noteOf(ctx).tell("job.submit", j.ID, err)
	return j, err
}

func (t toolJobs) EndSession(ctx context.Context, id string) (job.Session, error) {
	x, err := t.Client.EndSession(ctx, id)
	noteOf(ctx).tell("session.end", id, err)
	return x, err
}

// tell notes what a tool did, and what came of it.
func (n *auditNote) tell(action, object string, err error) {
	n.action, n.object = action, ""
	defer func() { n.told = append(n.told, toldAction{n.action, n.object, n.outcome}) }()
	switch code := job.CodeOf(err); {
	case err == nil:
		n.object, n.outcome = object, job.OutcomeOK
	case code == "" || code == job.CodeUnavailable || code == job.CodeInternal:
		n.outcome = job.OutcomeFailed
	default:
		n.outcome = job.OutcomeRefused
	}
}

func (t toolJobs) Wait(ctx context.Context, id string) (producer.Job, error) {
	return t.api.wait(ctx, t.Client, id, t.api.maxWait)
}

func (t toolJobs) Watch(ctx context.Context, id, after string) iter.Seq2[producer.Event, error] {
	return func(yield func(producer.Event, error) bool) {
		release, err := t.api.watchers.acquire(t.tenant)
		if err != nil {
			yield(producer.Event{}, err)
			return
		}
		defer release()
		t.Client.Watch(ctx, id, after)(yield)
	}
}

// languages are the names of the runtimes that the tenant's programs can have.
func (a *API) languages(ctx context.Context, c caller) ([]string, error) {
	return tools.Languages(ctx, a.answering(ctx, c.tenant))
}
