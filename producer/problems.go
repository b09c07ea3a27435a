package producer

import (
	"context"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Problems is what a tenant does with problems that it stores once, and has submissions graded by: [job.Spec.Problem] names one.
// Safe for concurrent use.
type Problems interface {
	// StoreProblem stores a problem, and returns its head. One that is there already stays as it is. What it names as uploads has to
	// be there (see [Uploader]), and is kept as long as the problem. It fails with job.Invalid, job.ErrTooManyProblems, and with a
	// *job.Error of code quota_exceeded.
	StoreProblem(ctx context.Context, p job.Problem) (job.ProblemHead, error)
	// Problem returns the problem of that digest, answers included. It fails with job.ErrNoProblem.
	Problem(ctx context.Context, digest string) (job.StoredProblem, error)
	// ListProblems lists them, the newest first.
	ListProblems(ctx context.Context) ([]job.ProblemHead, error)
	// DeleteProblem forgets a problem. Jobs that name it go on; what it graded can't be graded again by another one. It fails with
	// job.ErrNoProblem.
	DeleteProblem(ctx context.Context, digest string) error
	// Regrade grades by the problem of that digest what another one graded, as a batch. It fails with job.ErrNoProblem, and with
	// job.Invalid where there is nothing to grade again.
	Regrade(ctx context.Context, digest string, r RegradeRequest) (Regraded, error)
}

var _ Problems = (*Client)(nil)

// RegradeRequest is the body of POST /v1/problems/{digest}/regrade.
type RegradeRequest struct {
	job.BatchOptions

	// From is the digest of the problem that graded the submissions before. It has to be stored still.
	From string `json:"from" doc:"The digest of the problem that graded the submissions before; it has to be stored still."`
	// EndedBefore says which: submissions whose jobs had ended by then. Defaults to now. With an IdempotencyKey it has to be given, so that the
	// same request is about the same submissions.
	EndedBefore *time.Time `json:"ended_before,omitempty" doc:"Only submissions whose jobs had ended by then; absent: by now. Needed with an idempotency key, so that the same request is about the same submissions."`
	// Priority of the jobs. Defaults to low.
	Priority job.Priority `json:"priority,omitempty" enum:"high,normal,low" doc:"Of the jobs; defaults to low."`
}

// Regraded is what becomes of a [RegradeRequest].
type Regraded struct {
	// Batch has a job for each submission, those that were graded last first. Metadata of each says of which job it is the
	// submission ([job.RegradeKey]).
	Batch job.Batch `json:"batch" doc:"A job for each submission. The metadata glovebox.regrade_of of each names the job that graded it first."`
	// LeftOut are jobs whose submissions can't be graded again, the first [MaxLeftOut] of them, and why. LeftOutTotal counts all.
	LeftOut      []LeftOut `json:"left_out" doc:"Jobs whose submissions are not graded again, and why: the first 100." nullable:"false"`
	LeftOutTotal int       `json:"left_out_total" doc:"How many there are in all."`
}

// MaxLeftOut bounds [Regraded.LeftOut].
const MaxLeftOut = 100

// LeftOut is a job whose submission is not graded again.
type LeftOut struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// ProblemList is the answer of GET /v1/problems.
type ProblemList struct {
	Problems []job.ProblemHead `json:"problems" doc:"The tenant's problems, the newest first." nullable:"false"`
}

const problemsPath = "/v1/problems"

// StoreProblem is [Problems.StoreProblem].
func (c *Client) StoreProblem(ctx context.Context, p job.Problem) (job.ProblemHead, error) {
	var head job.ProblemHead
	err := c.send(ctx, http.MethodPost, problemsPath, p, &head)
	return head, err
}

// Problem is [Problems.Problem].
func (c *Client) Problem(ctx context.Context, digest string) (job.StoredProblem, error) {
	var p job.StoredProblem
	if !job.IsSHA256(digest) {
		return p, job.ErrNoProblem // "..", say, would mean another URL
	}
	err := c.json(ctx, http.MethodGet, problemsPath+"/"+digest, 0, nil, &p)
	return p, err
}

// ListProblems is [Problems.ListProblems].
func (c *Client) ListProblems(ctx context.Context) ([]job.ProblemHead, error) {
	var list ProblemList
	err := c.json(ctx, http.MethodGet, problemsPath, 0, nil, &list)
	return list.Problems, err
}

// DeleteProblem is [Problems.DeleteProblem].
func (c *Client) DeleteProblem(ctx context.Context, digest string) error {
	if !job.IsSHA256(digest) {
		return job.ErrNoProblem
	}
	res, err := c.do(ctx, http.MethodDelete, problemsPath+"/"+digest)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Regrade is [Problems.Regrade].
func (c *Client) Regrade(ctx context.Context, digest string, r RegradeRequest) (Regraded, error) {
	var answer Regraded
	if !job.IsSHA256(digest) {
		return answer, job.ErrNoProblem
	}
	err := c.send(ctx, http.MethodPost, problemsPath+"/"+digest+"/regrade", r, &answer)
	return answer, err
}
