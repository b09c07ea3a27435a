package producer

import (
	"context"
	"net/http"
	"net/url"

	"github.com/glovebox-run/glovebox/job"
)

// MaxApprovals is how many jobs a list of those that wait for a decision has at most.
const MaxApprovals = 200

// Approvals are decisions about jobs that a rule holds. A token needs the scope approve for them. Safe for concurrent use.
type Approvals interface {
	// Approvals lists the tenant's jobs that wait for a decision, without their specs, at most [MaxApprovals]: first those that end soonest without one.
	Approvals(ctx context.Context) ([]job.Pending, error)
	// Approval returns one with its spec, which is what will run. It fails with job.ErrNotFound, or with job.ErrNotHeld where it waits for no decision.
	Approval(ctx context.Context, id string) (job.Pending, error)
	// Approve lets it run. The decision names the input hash that was shown: where the job is another one by now, or was never that, it fails with
	// job.ErrOtherInput. It fails with job.ErrOwnApproval for a job that was submitted with the same token, job.ErrNotHeld where it was decided about
	// before, job.ErrNotFound or job.Invalid.
	Approve(ctx context.Context, id string, d job.Decision) (job.Summary, error)
	// Reject ends it as canceled. It fails as Approve does.
	Reject(ctx context.Context, id string, d job.Decision) (job.Summary, error)
}

var _ Approvals = (*Client)(nil)

const approvalsPath = "/v1/approvals"

// ApprovalList is the answer of GET /v1/approvals.
type ApprovalList struct {
	Approvals []job.Pending `json:"approvals" nullable:"false" doc:"Jobs that wait for a decision, at most 200: first those that end soonest without one."`
}

// Approvals is [Approvals.Approvals].
func (c *Client) Approvals(ctx context.Context) ([]job.Pending, error) {
	var list ApprovalList
	err := c.send(ctx, http.MethodGet, approvalsPath, nil, &list)
	return list.Approvals, err
}

// Approval is [Approvals.Approval].
func (c *Client) Approval(ctx context.Context, id string) (p job.Pending, err error) {
	err = c.send(ctx, http.MethodGet, approvalsPath+"/"+url.PathEscape(id), nil, &p)
	return p, err
}

// Approve is [Approvals.Approve].
func (c *Client) Approve(ctx context.Context, id string, d job.Decision) (r job.Summary, err error) {
	err = c.send(ctx, http.MethodPost, approvalsPath+"/"+url.PathEscape(id)+"/approve", d, &r)
	return r, err
}

// Reject is [Approvals.Reject].
func (c *Client) Reject(ctx context.Context, id string, d job.Decision) (r job.Summary, err error) {
	err = c.send(ctx, http.MethodPost, approvalsPath+"/"+url.PathEscape(id)+"/reject", d, &r)
	return r, err
}
