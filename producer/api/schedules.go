package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type scheduleInput struct {
	Name string `path:"name" doc:"The schedule's name: 1 to 64 lower-case letters, digits, - and _."`
}

type runScheduleInput struct {
	Name   string `path:"name" doc:"The schedule's name."`
	Prefer string `header:"Prefer" doc:"wait=SECONDS holds the answer until the job has ended or the time is up (RFC 7240)." example:"wait=30"`
	// There is no body that could say it, too.
	IdempotencyKey string `header:"Idempotency-Key" doc:"Up to 255 printable ASCII characters. For 24 hours, a run of the same schedule under the same key is answered with the first one's job." example:"report-of-today"`
}

type scheduleOutput struct{ Body job.Schedule }

type schedulesOutput struct{ Body producer.ScheduleList }

type firesOutput struct{ Body producer.FireList }

// scheduleRoutes start templates by the clock.
func (a *API) scheduleRoutes(h huma.API, d documenter) {
	set := d.operation("set-schedule", http.MethodPut, "/v1/schedules/{name}", "Store a schedule",
		"A schedule starts a template at the times of a cron expression, once for each, however many api processes there are. Where the times of one that is there change, it begins anew from now.",
		d.answers(200, "The schedule", d.schema(job.Schedule{})), d.problems(400, 401, 409, 413, 415, 422, 503))
	set.MaxBodyBytes = recordBody
	set.RequestBody = jsonBody()
	huma.Register(h, set, a.setSchedule)
	set.RequestBody.Content["application/json"].Schema = d.schema(job.ScheduleSettings{})

	huma.Register(h, d.operation("list-schedules", http.MethodGet, "/v1/schedules", "List schedules",
		"The tenant's schedules by name.", d.problems(401, 503)), a.listSchedules)
	huma.Register(h, d.operation("get-schedule", http.MethodGet, "/v1/schedules/{name}", "Get a schedule",
		"A schedule's settings, and when it fires next.", d.problems(401, 404, 503)), a.getSchedule)
	remove := d.operation("delete-schedule", http.MethodDelete, "/v1/schedules/{name}", "Delete a schedule",
		"Deletes a schedule. Jobs that it started go on, and a job that is being created for it at that moment, which takes 15 seconds at most, may still start.", d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteSchedule)
	huma.Register(h, d.operation("pause-schedule", http.MethodPost, "/v1/schedules/{name}/pause", "Pause a schedule",
		"It does not fire, and drops a fire that waits.", d.problems(401, 404, 503)), a.pauseSchedule)
	huma.Register(h, d.operation("resume-schedule", http.MethodPost, "/v1/schedules/{name}/resume", "Resume a schedule",
		"It fires again, from now on: for nothing that was missed while it was paused.", d.problems(401, 404, 503)), a.resumeSchedule)
	huma.Register(h, d.operation("list-fires", http.MethodGet, "/v1/schedules/{name}/fires", "List a schedule's fires",
		"What became of the last 100 fires, the newest first: which job each started, or why it did not.", d.problems(401, 404, 503)), a.scheduleFires)
	run := d.operation("run-schedule", http.MethodPost, "/v1/schedules/{name}/run", "Run a schedule now",
		"Makes a job of the schedule's template and parameters, as POST /v1/jobs does, also while it is paused. Its times, and what it does about its last job, stay as they are. Of a template that is a pipeline POST /v1/runs begins a run.",
		d.answers(200, "The job has ended: its result", d.result), d.answers(202, "The job is accepted", d.record),
		d.problems(400, 401, 402, 404, 409, 410, 422, 503))
	run.DefaultStatus = http.StatusAccepted
	huma.Register(h, run, a.runSchedule)
}

func (a *API) setSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	settings, done, err := readBody[job.ScheduleSettings](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	return a.schedule(ctx, func(c producer.Schedules) (job.Schedule, error) { return c.SetSchedule(ctx, in.Name, settings) })
}

func (a *API) getSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	return a.schedule(ctx, func(c producer.Schedules) (job.Schedule, error) { return c.Schedule(ctx, in.Name) })
}

func (a *API) pauseSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	return a.schedule(ctx, func(c producer.Schedules) (job.Schedule, error) { return c.PauseSchedule(ctx, in.Name) })
}

func (a *API) resumeSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	return a.schedule(ctx, func(c producer.Schedules) (job.Schedule, error) { return c.ResumeSchedule(ctx, in.Name) })
}

// schedule answers what do makes of a schedule.
func (a *API) schedule(ctx context.Context, do func(producer.Schedules) (job.Schedule, error)) (*scheduleOutput, error) {
	sc, err := do(a.tenantClient(ctx))
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &scheduleOutput{sc}, nil
}

func (a *API) listSchedules(ctx context.Context, _ *struct{}) (*schedulesOutput, error) {
	list, err := a.tenantClient(ctx).ListSchedules(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &schedulesOutput{producer.ScheduleList{Schedules: list}}, nil
}

func (a *API) deleteSchedule(ctx context.Context, in *scheduleInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteSchedule(ctx, in.Name); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}

func (a *API) scheduleFires(ctx context.Context, in *scheduleInput) (*firesOutput, error) {
	list, err := a.tenantClient(ctx).ScheduleFires(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &firesOutput{producer.FireList{Fires: list}}, nil
}

func (a *API) runSchedule(ctx context.Context, in *runScheduleInput) (*jobOutput, error) {
	client := a.tenantClient(ctx)
	j, err := client.RunSchedule(ctx, in.Name, in.IdempotencyKey)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.submitted(ctx, client, j, in.Prefer), nil
}
