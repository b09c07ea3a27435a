package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
)

type sendInputInput struct {
	ID string `path:"id" doc:"The job's id."`
}

func (a *API) inputRoute(h huma.API, d documenter) {
	op := d.operation("send-input", http.MethodPost, "/v1/jobs/{id}/input", "Send input to a job that runs",
		"Sends the program of a job that was submitted with interactive more of its standard input, the end of that, or a signal. What is accepted reaches the program in order, also where its worker is lost and another one runs it again. A job that waits is 409 (not_running); one that takes no input, or no more, is 409 (no_input): 256 KiB as JSON in all, with 64 bytes more for each request.",
		d.answers(204, "The program will get it", nil), d.problems(400, 401, 404, 409, 413, 415, 422, 503))
	op.MaxBodyBytes = recordBody
	op.RequestBody = jsonBody()
	huma.Register(h, op, a.sendInput)
	op.RequestBody.Content["application/json"].Schema = d.schema(job.Input{})
}

func (a *API) sendInput(ctx context.Context, in *sendInputInput) (*struct{}, error) {
	input, done, err := readBody[job.Input](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if err := a.tenantClient(ctx).SendInput(ctx, in.ID, input); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // there is nothing to say: 204
}
