package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type startRunInput struct {
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the run has ended or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

type rerunInput struct {
	ID             string `path:"id" doc:"The run's id."`
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the run has ended or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

type runInput struct {
	ID string `path:"id" doc:"The run's id."`
}

type getRunInput struct {
	ID     string `path:"id" doc:"The run's id."`
	Prefer string `header:"Prefer" doc:"wait=SECONDS holds the answer until the run has ended or the time is up (RFC 7240)." example:"wait=30"`
}

type graphInput struct {
	ID     string `path:"id" doc:"The run's id."`
	Format string `query:"format" default:"mermaid" doc:"mermaid, dot or text."`
}

type runOutput struct {
	Status            int
	Location          string `header:"Location" doc:"The run's own URL."`
	PreferenceApplied string `header:"Preference-Applied"`
	Body              job.Run
}

type runsInput struct {
	Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
}

type runsOutput struct{ Body producer.RunPage }

type graphOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// runRoutes run pipelines.
func (a *API) runRoutes(h huma.API, d documenter) {
	run := d.schema(job.Run{})
	start := d.operation("start-run", http.MethodPost, "/v1/runs", "Run a pipeline",
		"A pipeline is up to 64 steps that need each other, each a job or one for each item of a list: given here, or stored as a template. All faults of it are answered at once, before anything is made of it. "+
			"pipeline.completed is posted once, when every step has ended.",
		d.answers(200, "The run has ended", run), d.answers(202, "The run is accepted", run), d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	start.MaxBodyBytes = recordBody
	start.RequestBody = jsonBody()
	huma.Register(h, start, a.startRun)
	start.RequestBody.Content["application/json"].Schema = d.schema(job.PipelineRequest{})

	rerun := d.operation("rerun-run", http.MethodPost, "/v1/runs/{id}/rerun", "Run a run again",
		"Repeats a run that has ended, with the same pipeline and parameters, as a new run. Steps that have succeeded, or were not to run, are taken over with what their jobs have left; those that did not succeed run again, with all that follow, and so does the step in from. "+
			"It takes the scope read besides: what is taken over may be of jobs that others submitted.",
		d.answers(200, "The run has ended", run), d.answers(202, "The run is accepted", run), d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	rerun.Security = []map[string][]string{{bearerScheme: {string(job.ScopeSubmit), string(job.ScopeRead)}}}
	rerun.MaxBodyBytes = recordBody
	rerun.RequestBody = jsonBody()
	huma.Register(h, rerun, a.rerunRun)
	rerun.RequestBody.Content["application/json"].Schema = d.schema(job.RerunRequest{})
	huma.Register(h, d.operation("list-runs", http.MethodGet, "/v1/runs", "List runs",
		"Runs of the tenant, newest first, a hundred a page, as long as they are kept. While the answer has next_cursor there may be more.", d.problems(401, 422, 503)), a.listRuns)
	huma.Register(h, d.operation("get-run", http.MethodGet, "/v1/runs/{id}", "Get a run",
		"Answers where each step of the run stands, and why. With Prefer: wait=30 the answer is held until the run has ended or 30 seconds have passed; then it is 202.",
		d.answers(200, "The run", run), d.answers(202, "The time is up and the run has not ended", run), d.problems(401, 404, 503)), a.getRun)
	huma.Register(h, d.operation("cancel-run", http.MethodDelete, "/v1/runs/{id}", "Cancel a run",
		"No job of it is made any more, and those that have not ended are canceled. Then it ends. A token without the scope read is told its id, status and times.",
		d.answers(202, "The run ends", run), d.problems(401, 404, 409, 503)), a.cancelRun)
	graph := d.operation("draw-run", http.MethodGet, "/v1/runs/{id}/graph", "Draw a run",
		"The run's steps, and where each stands, as a flowchart of Mermaid, a digraph of Graphviz, or text.", d.problems(401, 404, 422, 503))
	graph.Responses["200"] = &huma.Response{Description: "The graph", Content: map[string]*huma.MediaType{"text/plain": {Schema: text()}}}
	huma.Register(h, graph, a.drawRun)
}

func (a *API) startRun(ctx context.Context, in *startRunInput) (*runOutput, error) {
	r, done, err := readBody[job.PipelineRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if r.IdempotencyKey, err = idempotencyKey(r.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	run, err := a.tenantClient(ctx).StartRun(ctx, r)
	done() // a wait holds nothing of the body
	return a.started(ctx, run, err, in.Prefer)
}

func (a *API) rerunRun(ctx context.Context, in *rerunInput) (*runOutput, error) {
	if err := callerOf(ctx).may(job.ScopeRead); err != nil {
		return nil, err
	}
	r, done, err := readBody[job.RerunRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if r.IdempotencyKey, err = idempotencyKey(r.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	run, err := a.tenantClient(ctx).RerunRun(ctx, in.ID, r)
	return a.started(ctx, run, err, in.Prefer)
}

// started answers a run that has begun, which it waits for as the client prefers.
func (a *API) started(ctx context.Context, run job.Run, err error, prefer string) (*runOutput, error) {
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if preferredWait(prefer, a.maxWait) > 0 {
		// The run is accepted: that it can't be waited for must not hide its id.
		if waited, err := a.waitRun(ctx, run.ID, prefer); err == nil {
			return waited, nil
		}
	}
	return runAnswer(run, http.StatusAccepted), nil
}

// runAnswer answers with a run, and says where it is.
func runAnswer(run job.Run, status int) *runOutput {
	return &runOutput{Status: status, Location: "/v1/runs/" + run.ID, Body: run}
}

func (a *API) getRun(ctx context.Context, in *getRunInput) (*runOutput, error) {
	out, err := a.waitRun(ctx, in.ID, in.Prefer)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return out, nil
}

// waitRun answers a run, which it waits for as the client prefers.
func (a *API) waitRun(ctx context.Context, id, prefer string) (*runOutput, error) {
	client := a.tenantClient(ctx)
	d := preferredWait(prefer, a.maxWait)
	if d == 0 {
		run, err := client.GetRun(ctx, id)
		return runAnswer(run, http.StatusOK), err
	}
	run, err := held(ctx, a, id, d, client.WaitRun, client.GetRun)
	out := runAnswer(run, http.StatusOK)
	if !run.Status.Final() {
		out.Status = http.StatusAccepted
	}
	out.PreferenceApplied = waitApplied(d)
	return out, err
}

func (a *API) listRuns(ctx context.Context, in *runsInput) (*runsOutput, error) {
	page, err := a.tenantClient(ctx).ListRuns(ctx, in.Cursor)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &runsOutput{page}, nil
}

func (a *API) cancelRun(ctx context.Context, in *runInput) (*runOutput, error) {
	run, err := a.tenantClient(ctx).CancelRun(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if callerOf(ctx).may(job.ScopeRead) != nil { // another may have started it
		run = job.Run{ID: run.ID, Status: run.Status, Steps: map[string]job.RunStep{}, CreatedAt: run.CreatedAt, Deadline: run.Deadline}
	}
	return runAnswer(run, http.StatusAccepted), nil
}

func (a *API) drawRun(ctx context.Context, in *graphInput) (*graphOutput, error) {
	graph, err := a.tenantClient(ctx).GraphRun(ctx, in.ID, in.Format)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &graphOutput{"text/plain; charset=utf-8", []byte(graph)}, nil
}
