package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

type sessionInput struct {
	ID string `path:"id" doc:"The session's id."`
}

type executeInSessionInput struct {
	ID     string `path:"id" doc:"The session's id."`
	Prefer string `header:"Prefer" doc:"wait=SECONDS holds the answer until the execution has ended or the time is up (RFC 7240)." example:"wait=30"`
	// Huma doesn't see fields of a struct that is embedded here, as its type is not exported.
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

// endSessionInput has text only, as cancelInput.
type endSessionInput struct {
	ID    string `path:"id" doc:"The session's id."`
	Purge string `query:"purge"`
}

type forkSessionInput struct {
	ID             string `path:"id" doc:"The session's id."`
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the fork is there or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

type startSessionInput struct {
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the session is ready or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

// sessionsInput has text only, as listInput.
type sessionsInput struct {
	Status string `query:"status" doc:"Sessions in any of these, separated by commas: queued, ready, busy, paused, ended."`
	Limit  string `query:"limit" doc:"How many sessions to answer at most, 1 to 200; 50 by default."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
}

type executionsInput struct {
	ID     string `path:"id" doc:"The session's id."`
	Limit  string `query:"limit" doc:"How many executions to answer at most, 1 to 200; 50 by default."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
}

type sessionOutput struct {
	Location string `header:"Location" doc:"The session's own URL."`
	Body     job.Session
}

type contextInput struct {
	ID   string `path:"id" doc:"The session's id."`
	Name string `path:"name" doc:"The context's name: up to 32 lower-case letters, digits, _ and -."`
}

type (
	contextOutput  struct{ Body job.SessionContext }
	contextsOutput struct{ Body producer.ContextList }
)

type sessionsOutput struct{ Body producer.SessionPage }

// sessionRoutes are interpreters that keep their state.
func (a *API) sessionRoutes(h huma.API, d documenter) {
	start := d.operation("start-session", http.MethodPost, "/v1/sessions", "Start a session",
		"A session is an interpreter in a sandbox of its own that keeps its state from one execution to the next. It can be given code at once: that waits until a worker holds the session. It ends when it is deleted, at the end of ttl_seconds, or when it has executed nothing for idle_seconds. Until then it holds its memory, unless its worker pauses it. "+
			"With Prefer: wait=30 the answer is 201 as soon as it is ready, and 202 where it is not within 30 seconds, or has ended.",
		d.answers(201, "The session is ready", d.schema(job.Session{})), d.answers(202, "The session is accepted", d.schema(job.Session{})), d.problems(400, 401, 402, 409, 410, 413, 415, 422, 503))
	start.DefaultStatus = http.StatusAccepted
	start.MaxBodyBytes = recordBody
	start.RequestBody = jsonBody()
	huma.Register(h, start, a.startSession)
	start.RequestBody.Content["application/json"].Schema = d.schema(job.SessionSettings{})

	huma.Register(h, d.operation("list-sessions", http.MethodGet, "/v1/sessions", "List sessions",
		"The tenant's sessions, newest first, also those that have ended and are still kept. With status there can be fewer than limit, or none, on a page that is not the last.", d.problems(401, 422, 503)), a.listSessions)
	huma.Register(h, d.operation("get-session", http.MethodGet, "/v1/sessions/{id}", "Get a session",
		"Where a session stands. One that has ended says why, and never comes back.", d.problems(401, 404, 503)), a.getSession)
	change := d.operation("change-session", http.MethodPatch, "/v1/sessions/{id}", "Change a session",
		"Changes how long a session lives, how long it may be idle, and its metadata. What the body doesn't name stays as it is. A session lives 5400 seconds in all at most, as its sandbox does not outlive that: what is beyond is refused and says the most.",
		d.problems(400, 401, 404, 410, 413, 415, 422, 503))
	change.MaxBodyBytes = smallBody
	change.RequestBody = jsonBody()
	huma.Register(h, change, a.changeSession)
	change.RequestBody.Content["application/json"].Schema = d.schema(job.SessionChange{})
	huma.Register(h, d.operation("end-session", http.MethodDelete, "/v1/sessions/{id}", "End or purge a session",
		"Ends a session; what it executes, and what waits for that, ends as canceled. One that has ended stays as it is. With purge=true, deletes everything that is kept of a session that has ended, and of its executions, instead; where it breaks off, the same request goes on.",
		d.answers(200, "The session has ended", d.schema(job.Session{})), d.answers(204, "The session is purged", nil), d.problems(401, 404, 409, 422, 503)), a.endSession)
	describePurge(h.OpenAPI().Paths["/v1/sessions/{id}"].Delete, "Delete everything that is kept of the session, which has to have ended, instead of ending it.")
	huma.Register(h, d.operation("interrupt-session", http.MethodPost, "/v1/sessions/{id}/interrupt", "Interrupt a session",
		"Interrupts what the session executes, as DELETE of that job does; its state stays if its interpreter can be interrupted within 2 seconds. Nothing happens to a session that executes nothing.",
		d.problems(401, 404, 503)), a.interruptSession)
	fork := d.operation("fork-session", http.MethodPost, "/v1/sessions/{id}/fork", "Fork a session",
		"A second session that goes on from where this one is, once it has executed what it was given before: with its variables, files and processes. Each goes on by itself, and random numbers are drawn anew. It is on the same worker's disk, as a paused session is, until its first execution. "+
			"Where the worker can't do that, the answer is 409 (unforkable), or the fork ends as failed: replay the session instead. "+
			"With Prefer: wait=30 the answer is 201 as soon as it is there, and 202 where it is not within 30 seconds, or has ended.",
		d.answers(201, "The fork is there", d.schema(job.Session{})), d.answers(202, "The fork is accepted", d.schema(job.Session{})), d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	fork.DefaultStatus = http.StatusAccepted
	fork.MaxBodyBytes = smallBody
	fork.RequestBody = jsonBody()
	huma.Register(h, fork, a.forkSession)
	fork.RequestBody.Content["application/json"].Schema = d.schema(job.SessionFork{})
	fork.RequestBody.Required = false
	restart := d.operation("restart-session", http.MethodPost, "/v1/sessions/{id}/restart", "Restart a session's interpreter",
		"The next execution of the context has a new interpreter, and the same files. What it executes ends as canceled, its state lost; what waits is executed by the new one. An interpreter that executes nothing is ended before the session executes anything more, its memory held until then. "+
			"The context's generation is one more, unless nothing was executed in it yet. With an execution in the body, nothing is done unless that runs.",
		d.problems(400, 401, 404, 410, 413, 415, 422, 503))
	restart.MaxBodyBytes = smallBody
	restart.RequestBody = jsonBody()
	huma.Register(h, restart, a.restartSession)
	restart.RequestBody.Content["application/json"].Schema = d.schema(job.Restart{})
	restart.RequestBody.Required = false
	huma.Register(h, d.operation("list-contexts", http.MethodGet, "/v1/sessions/{id}/contexts", "List a session's contexts",
		"Each has an interpreter, and a state, of its own; they share the sandbox, its limits and its files, and take turns.", d.problems(401, 404, 503)), a.listContexts)
	create := d.operation("make-context", http.MethodPut, "/v1/sessions/{id}/contexts/{name}", "Make a context",
		"Makes a context of a session before its first execution, which would make it, too. Where it is there already, it has to have the same language and directory.",
		d.problems(400, 401, 404, 409, 410, 413, 415, 422, 503))
	create.MaxBodyBytes = smallBody
	create.RequestBody = jsonBody()
	huma.Register(h, create, a.makeContext)
	create.RequestBody.Content["application/json"].Schema = d.schema(job.ContextSettings{})
	create.RequestBody.Required = false
	remove := d.operation("delete-context", http.MethodDelete, "/v1/sessions/{id}/contexts/{name}", "Delete a context",
		"Ends a context's interpreter, as a restart does, and forgets it. What waits for it is canceled. One that is made again under the name has nothing of it, and a generation beyond.", d.problems(401, 404, 410, 422, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteContext)
	huma.Register(h, d.operation("list-executions", http.MethodGet, "/v1/sessions/{id}/executions", "List a session's executions",
		"Records of what the session was given to execute, newest first, as GET /v1/jobs lists jobs: there can be fewer than limit, or none, on a page that is not the last.", d.problems(401, 404, 422, 503)), a.listExecutions)
	execute := d.operation("execute-in-session", http.MethodPost, "/v1/sessions/{id}/execute", "Execute code in a session",
		"The execution is a job: GET, DELETE and events of /v1/jobs/{id} are for it, too. Executions take turns in the order in which they came; up to 16 wait. Its files are those that it has changed. "+
			"Its result's session says whether the state is kept or lost. An execution is tried once: where its worker is lost, it ends as internal_error with the code session_lost. "+withEvents,
		d.answersOrEvents("The execution has ended: its result", d.result), d.answers(202, "The execution is accepted", d.record),
		d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	execute.DefaultStatus = http.StatusAccepted
	execute.MaxBodyBytes = recordBody
	execute.RequestBody = jsonBody()
	execute.Middlewares = huma.Middlewares{submission{a, a.executeSent}.orEvents}
	huma.Register(h, execute, a.executeInSession)
	execute.RequestBody.Content["application/json"].Schema = d.schema(job.SessionExecution{})
}

func (a *API) startSession(ctx context.Context, in *startSessionInput) (*jobOutput, error) {
	settings, done, err := readBody[job.SessionSettings](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if settings.IdempotencyKey, err = idempotencyKey(settings.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	client := a.tenantClient(ctx)
	x, err := client.StartSession(ctx, settings)
	done() // a wait holds nothing of the body
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.startedSession(ctx, client, x, in.Prefer), nil
}

func (a *API) forkSession(ctx context.Context, in *forkSessionInput) (*jobOutput, error) {
	fork, done, err := readOptional[job.SessionFork](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if fork.IdempotencyKey, err = idempotencyKey(fork.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	client := a.tenantClient(ctx)
	x, err := client.ForkSession(ctx, in.ID, fork)
	done()
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.startedSession(ctx, client, x, in.Prefer), nil
}

// startedSession answers a session that is accepted, once it is ready if the client waits for that.
func (a *API) startedSession(ctx context.Context, client *direct.Client, x job.Session, prefer string) *jobOutput {
	out := &jobOutput{Status: http.StatusAccepted, Location: "/v1/sessions/" + x.ID}
	if wait := preferredWait(prefer, a.maxWait); wait > 0 {
		out.PreferenceApplied = waitApplied(wait)
		// The session is accepted: whatever goes wrong from here on must not hide that.
		if now, err := held(ctx, a, x.ID, wait, client.WaitSession, client.Session); err == nil {
			x = now
		} else if ctx.Err() == nil {
			a.log.WarnContext(ctx, "waiting for a session ended early", "session_id", x.ID, "request_id", requestID(ctx), "error", err)
		}
		if x.Status != job.SessionQueued && x.Status != job.SessionEnded {
			out.Status = http.StatusCreated
		}
	}
	out.Body = x
	return out
}

func (a *API) getSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	return a.session(ctx, func(c producer.Sessions) (job.Session, error) { return c.Session(ctx, in.ID) })
}

func (a *API) changeSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	change, done, err := readBody[job.SessionChange](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	return a.session(ctx, func(c producer.Sessions) (job.Session, error) { return c.ChangeSession(ctx, in.ID, change) })
}

func (a *API) endSession(ctx context.Context, in *endSessionInput) (*jobOutput, error) {
	purge, err := purges(in.Purge)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if purge {
		noteOf(ctx).action = "session.purge"
		if err := callerOf(ctx).may(job.ScopeManage); err != nil {
			return nil, err
		}
		if err := a.tenantClient(ctx).PurgeSession(ctx, in.ID); err != nil {
			return nil, a.problem(ctx, err)
		}
		return &jobOutput{Status: http.StatusNoContent}, nil
	}
	x, err := a.tenantClient(ctx).EndSession(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &jobOutput{Status: http.StatusOK, Location: "/v1/sessions/" + x.ID, Body: x}, nil
}

func (a *API) interruptSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	return a.session(ctx, func(c producer.Sessions) (job.Session, error) { return c.InterruptSession(ctx, in.ID) })
}

func (a *API) restartSession(ctx context.Context, in *sessionInput) (*sessionOutput, error) {
	restart, done, err := readOptional[job.Restart](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	return a.session(ctx, func(c producer.Sessions) (job.Session, error) { return c.RestartSession(ctx, in.ID, restart) })
}

func (a *API) listContexts(ctx context.Context, in *sessionInput) (*contextsOutput, error) {
	list, err := a.tenantClient(ctx).SessionContexts(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &contextsOutput{producer.ContextList{Contexts: list}}, nil
}

func (a *API) makeContext(ctx context.Context, in *contextInput) (*contextOutput, error) {
	settings, done, err := readOptional[job.ContextSettings](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	made, err := a.tenantClient(ctx).MakeContext(ctx, in.ID, in.Name, settings)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &contextOutput{made}, nil
}

func (a *API) deleteContext(ctx context.Context, in *contextInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteContext(ctx, in.ID, in.Name); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil
}

// session answers what do makes of a session.
func (a *API) session(ctx context.Context, do func(producer.Sessions) (job.Session, error)) (*sessionOutput, error) {
	x, err := do(a.tenantClient(ctx))
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &sessionOutput{Location: "/v1/sessions/" + x.ID, Body: x}, nil
}

func (a *API) listSessions(ctx context.Context, in *sessionsInput) (*sessionsOutput, error) {
	o, err := sessionPage(in.Limit, in.Cursor)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	for _, s := range strings.FieldsFunc(in.Status, func(r rune) bool { return r == ',' }) {
		o.Status = append(o.Status, job.SessionStatus(s))
	}
	page, err := a.tenantClient(ctx).ListSessions(ctx, o)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &sessionsOutput{page}, nil
}

func (a *API) listExecutions(ctx context.Context, in *executionsInput) (*listOutput, error) {
	o, err := sessionPage(in.Limit, in.Cursor)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	page, err := a.tenantClient(ctx).ListExecutions(ctx, in.ID, o)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &listOutput{page}, nil
}

// sessionPage reads which page is asked for. It fails with job.Invalid.
func sessionPage(limit, cursor string) (producer.SessionListOptions, error) {
	o := producer.SessionListOptions{Cursor: cursor}
	if limit == "" {
		return o, nil
	}
	var err error
	if o.Limit, err = strconv.Atoi(limit); err != nil || o.Limit == 0 {
		return o, job.Invalid{{Field: "limit", Value: clip(limit), Message: "is no number of entries", Allowed: "1 to " + strconv.Itoa(producer.MaxPage)}}
	}
	return o, nil
}

func (a *API) executeInSession(ctx context.Context, in *executeInSessionInput) (*jobOutput, error) {
	client := a.tenantClient(ctx)
	j, err := a.executeSent(ctx, client, in.ID, in.IdempotencyKey)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.submitted(ctx, client, j, in.Prefer), nil
}

// executeSent gives a session the code in the request's body.
func (a *API) executeSent(ctx context.Context, client *direct.Client, session, key string) (j producer.Job, err error) {
	e, done, err := readBody[job.SessionExecution](ctx, a)
	if err != nil {
		return j, err
	}
	defer done() // what waits for it holds nothing of the body
	if e.IdempotencyKey, err = idempotencyKey(e.IdempotencyKey, key); err != nil {
		return j, err
	}
	return client.ExecuteInSession(ctx, session, e)
}
