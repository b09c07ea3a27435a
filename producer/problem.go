package producer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Problem is the body of every answer of the API that is not a success (RFC 9457).
type Problem struct {
	Type       string      `json:"type" doc:"urn:glovebox:problem: and a stable code to decide by." example:"urn:glovebox:problem:invalid"`
	Title      string      `json:"title" doc:"The HTTP status in words." example:"Unprocessable Entity"`
	Status     int         `json:"status" doc:"The HTTP status." example:"422"`
	Detail     string      `json:"detail" doc:"What went wrong this time."`
	Errors     job.Invalid `json:"errors,omitempty" doc:"Each field that is wrong, what it held and what is allowed."`
	ID         string      `json:"id,omitempty" doc:"The job or batch that an idempotency key began and that is no longer kept, of a 410; the job, where it was accepted and the answer is a problem all the same."`
	Context    string      `json:"context,omitempty" doc:"The context that has another generation than was expected, of a 409 generation_changed."`
	Generation int         `json:"generation,omitempty" doc:"That generation."`
	Batch      *job.Batch  `json:"batch,omitempty" doc:"What became of a batch that was not received to its end."`
}

const (
	// ProblemMediaType is the Content-Type of a Problem.
	ProblemMediaType = "application/problem+json"
	problemPrefix    = "urn:glovebox:problem:"
	maxProblem       = 1 << 20
)

// NewProblem returns a Problem with a code of package job.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{Type: problemPrefix + code, Title: http.StatusText(status), Status: status, Detail: detail}
}

// Code is the stable word in Type, or "" in a Problem that is not Glovebox's.
func (p *Problem) Code() string {
	code, ok := strings.CutPrefix(p.Type, problemPrefix)
	if !ok {
		return ""
	}
	return code
}

// err is the error that a client over Redis would have returned.
func (p *Problem) err() error {
	if p.Batch != nil {
		return &BatchError{Batch: *p.Batch, Err: p.cause()}
	}
	return p.cause()
}

func (p *Problem) cause() error {
	switch code := p.Code(); {
	case len(p.Errors) > 0:
		return p.Errors
	case code == job.CodeGone:
		return &job.GoneError{ID: p.ID}
	case code == job.CodeGenerationChanged:
		return &job.GenerationError{Context: p.Context, Generation: p.Generation}
	case code == job.CodeWaitOver:
		return &job.WaitOverError{ID: p.ID}
	default:
		return &job.Error{Code: code, Message: p.Detail}
	}
}

// problemOf reads the error in an answer that is no success.
func problemOf(res *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("read answer %d of the API: %w", res.StatusCode, err)
	}
	var p Problem
	mediaType, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if mediaType == ProblemMediaType && json.Unmarshal(b, &p) == nil && p.Code() != "" {
		return p.err()
	}
	code := job.CodeInternal
	if res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout {
		code = job.CodeUnavailable
	}
	where := res.Request.URL // without its query, which may hold a signature
	return &job.Error{Code: code, Message: fmt.Sprintf("%s://%s%s answered %s, and not as Glovebox's API does: is the URL right?",
		where.Scheme, where.Host, where.Path, res.Status)}
}
