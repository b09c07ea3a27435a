package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type approvalInput struct {
	ID string `path:"id" doc:"The job's id."`
}

type approvalOutput struct{ Body job.Pending }

type approvalsOutput struct{ Body producer.ApprovalList }

type decidedOutput struct{ Body job.Summary }

// approvalRoutes decide about jobs that a rule holds.
func (a *API) approvalRoutes(h huma.API, d documenter) {
	huma.Register(h, d.operation("list-approvals", http.MethodGet, "/v1/approvals", "List jobs that wait for a decision",
		"The tenant's jobs that a rule holds, without what they would run: first those that end soonest without a decision, at most 200.", d.problems(401, 403, 503)), a.listApprovals)
	huma.Register(h, d.operation("get-approval", http.MethodGet, "/v1/approvals/{id}", "Look at a job that waits for a decision",
		"The job with what it would run, and the input_hash that a decision about it names.", d.problems(401, 403, 404, 409, 503)), a.getApproval)
	for _, o := range []struct {
		id, path, summary, description string
		do                             func(context.Context, producer.Approvals, string, job.Decision) (job.Summary, error)
	}{
		{
			"approve-job", "/v1/approvals/{id}/approve", "Approve a job", "Lets a job run that a rule holds. The decision names the input_hash that was shown; where the job is another one, nothing is approved (409, other_input). Not with the token that submitted the job.",
			func(ctx context.Context, c producer.Approvals, id string, d job.Decision) (job.Summary, error) {
				return c.Approve(ctx, id, d)
			},
		},
		{
			"reject-job", "/v1/approvals/{id}/reject", "Reject a job", "Ends a job that a rule holds as canceled, with error.code rejected. What holds for approving holds for this.",
			func(ctx context.Context, c producer.Approvals, id string, d job.Decision) (job.Summary, error) {
				return c.Reject(ctx, id, d)
			},
		},
	} {
		op := d.operation(o.id, http.MethodPost, o.path, o.summary, o.description, d.answers(200, "The job", d.record), d.problems(400, 401, 403, 404, 409, 413, 415, 422, 503))
		op.MaxBodyBytes = recordBody
		op.RequestBody = jsonBody()
		huma.Register(h, op, func(ctx context.Context, in *approvalInput) (*decidedOutput, error) {
			decision, done, err := readBody[job.Decision](ctx, a)
			if err != nil {
				return nil, a.problem(ctx, err)
			}
			defer done()
			r, err := o.do(ctx, a.tenantClient(ctx), in.ID, decision)
			if err != nil {
				return nil, a.problem(ctx, err)
			}
			return &decidedOutput{r}, nil
		})
		op.RequestBody.Content["application/json"].Schema = d.schema(job.Decision{})
	}
}

func (a *API) listApprovals(ctx context.Context, _ *struct{}) (*approvalsOutput, error) {
	list, err := a.tenantClient(ctx).Approvals(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &approvalsOutput{producer.ApprovalList{Approvals: list}}, nil
}

func (a *API) getApproval(ctx context.Context, in *approvalInput) (*approvalOutput, error) {
	p, err := a.tenantClient(ctx).Approval(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &approvalOutput{p}, nil
}
