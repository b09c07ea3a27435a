package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type problemInput struct {
	Digest string `path:"digest" doc:"The problem's digest: 64 lower-case hex digits."`
}

type problemHeadOutput struct {
	Location string `header:"Location" doc:"The problem's own URL."`
	Body     job.ProblemHead
}

type problemOutput struct{ Body job.StoredProblem }

type problemsOutput struct{ Body producer.ProblemList }

type regradeInput struct {
	Digest         string `path:"digest" doc:"The digest of the problem that is to grade them."`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body."`
}

type regradeOutput struct {
	Location string `header:"Location" doc:"The batch's own URL."`
	Body     producer.Regraded
}

// problemRoutes store what submissions are graded by, and grade them again.
func (a *API) problemRoutes(h huma.API, d documenter) {
	store := d.operation("store-problem", http.MethodPost, "/v1/problems", "Store a problem",
		"Stores what submissions are graded by: tests, checker, groups and limits as a job has them, and what is put over a submission. Jobs name it by its digest (problem), and are then as if all of that had been sent with them. "+
			"One that is stored already stays as it is. Uploads that it names are kept as long as the problem.",
		d.answers(200, "The problem is stored", d.schema(job.ProblemHead{})), d.problems(400, 401, 409, 413, 415, 422, 503))
	store.MaxBodyBytes = a.bodyLimit
	store.RequestBody = jsonBody()
	huma.Register(h, store, a.storeProblem)
	store.RequestBody.Content["application/json"].Schema = d.schema(job.Problem{})

	huma.Register(h, d.operation("list-problems", http.MethodGet, "/v1/problems", "List problems",
		"The tenant's problems, the newest first.", d.problems(401, 503)), a.listProblems)
	huma.Register(h, d.operation("get-problem", http.MethodGet, "/v1/problems/{digest}", "Get a problem",
		"The problem as it is stored, answers included.", d.problems(401, 404, 503)), a.getProblem)
	remove := d.operation("delete-problem", http.MethodDelete, "/v1/problems/{digest}", "Delete a problem",
		"Deletes a problem. Jobs that name it go on. What it graded can't be graded again by another one, and its uploads are kept for a day, or for as long as jobs are.",
		d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteProblem)

	regrade := d.operation("regrade-problem", http.MethodPost, "/v1/problems/{digest}/regrade", "Grade submissions again",
		"Grades by this problem what another one (from) graded: a batch with a job for each submission, with its metadata and callback, those that were graded last first, up to 10,000. A submission that was graded more than once is graded once. "+
			"left_out says which are not, and why: sources are kept as long as their jobs. It takes the scope read besides: the batch leads to results of jobs that others submitted.",
		d.answers(202, "Every submission is in the batch, or left out", d.schema(producer.Regraded{})), d.problems(400, 401, 402, 404, 409, 410, 413, 415, 422, 503))
	regrade.DefaultStatus = http.StatusAccepted
	regrade.Security = []map[string][]string{{bearerScheme: {string(job.ScopeSubmit), string(job.ScopeRead)}}}
	regrade.MaxBodyBytes = recordBody
	regrade.RequestBody = jsonBody()
	huma.Register(h, regrade, a.regrade)
	regrade.RequestBody.Content["application/json"].Schema = d.schema(producer.RegradeRequest{})
}

func (a *API) storeProblem(ctx context.Context, _ *struct{}) (*problemHeadOutput, error) {
	p, done, err := readBody[job.Problem](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	head, err := a.tenantClient(ctx).StoreProblem(ctx, p)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &problemHeadOutput{"/v1/problems/" + head.Digest, head}, nil
}

func (a *API) listProblems(ctx context.Context, _ *struct{}) (*problemsOutput, error) {
	list, err := a.tenantClient(ctx).ListProblems(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &problemsOutput{producer.ProblemList{Problems: list}}, nil
}

func (a *API) getProblem(ctx context.Context, in *problemInput) (*problemOutput, error) {
	p, err := a.tenantClient(ctx).Problem(ctx, in.Digest)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &problemOutput{p}, nil
}

func (a *API) deleteProblem(ctx context.Context, in *problemInput) (*struct{}, error) {
	noteOf(ctx).object = clip(in.Digest)
	if err := a.tenantClient(ctx).DeleteProblem(ctx, in.Digest); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}

func (a *API) regrade(ctx context.Context, in *regradeInput) (*regradeOutput, error) {
	if err := callerOf(ctx).may(job.ScopeRead); err != nil {
		return nil, err
	}
	request, done, err := readBody[producer.RegradeRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	if request.IdempotencyKey, err = idempotencyKey(request.IdempotencyKey, in.IdempotencyKey); err != nil {
		return nil, a.problem(ctx, err)
	}
	answer, err := a.tenantClient(ctx).RegradeWhile(ctx, in.Digest, request, requestOf(ctx).goesOn)
	if sent, ok := ctx.Value(sentBodyKey{}).(sentBody); ok { // it may have taken longer than an answer usually has
		_ = http.NewResponseController(sent.w).SetWriteDeadline(time.Now().Add(answerTime)) // else the connection is gone
	}
	if err != nil {
		return nil, a.batchProblem(ctx, err)
	}
	return &regradeOutput{"/v1/batches/" + answer.Batch.ID, answer}, nil
}
