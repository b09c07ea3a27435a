package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// problem is a producer.Problem in the form that huma writes.
type problem struct{ *producer.Problem }

func (p problem) GetStatus() int            { return p.Status }
func (p problem) Error() string             { return p.Detail }
func (p problem) ContentType(string) string { return producer.ProblemMediaType }

func newProblem(status int, code, detail string) problem {
	return problem{producer.NewProblem(status, code, detail)}
}

// problem says what err means to the client. What it doesn't foresee is Redis or the
// bucket failing: that is logged, and the client is told to try again.
func (a *API) problem(ctx context.Context, err error) error {
	var p problem
	var invalid job.Invalid
	var said *job.Error
	var told huma.HeadersError
	var gone *producer.GoneError
	switch {
	case errors.As(err, &told):
		return err
	case errors.Is(err, errShareFull), errors.Is(err, errRoomFull):
		return roomProblem(err)
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return invalidProblem(http.StatusUnprocessableEntity, invalid)
	case errors.As(err, &gone):
		p = newProblem(http.StatusGone, producer.CodeGone, err.Error())
		p.ID = gone.ID
		return p
	case errors.Is(err, producer.ErrNotFound):
		return newProblem(http.StatusNotFound, producer.CodeNotFound, "there is no such job, batch or file, or no longer")
	case errors.Is(err, producer.ErrEnded):
		return newProblem(http.StatusConflict, producer.CodeEnded, err.Error())
	case errors.Is(err, producer.ErrNotEnded):
		return newProblem(http.StatusConflict, producer.CodeNotEnded, "the job has not ended: cancel it, and purge it once it has")
	case errors.Is(err, producer.ErrNoTenant):
		return newProblem(http.StatusNotFound, producer.CodeNoTenant, "there is no such tenant")
	case errors.Is(err, producer.ErrNoToken):
		return newProblem(http.StatusNotFound, producer.CodeNoToken, "the tenant has no such token, or no longer")
	case errors.Is(err, producer.ErrNotDisabled):
		return newProblem(http.StatusConflict, producer.CodeNotDisabled, err.Error())
	case errors.Is(err, producer.ErrTenantExists):
		return newProblem(http.StatusConflict, producer.CodeTenantExists, "there is a tenant of that name already")
	case errors.Is(err, producer.ErrRevision):
		return newProblem(http.StatusConflict, producer.CodeRevision, "the terms have changed meanwhile: get them, and change those")
	case errors.Is(err, producer.ErrRotating):
		return newProblem(http.StatusConflict, producer.CodeRotating, err.Error())
	case errors.Is(err, producer.ErrNoSecret):
		return newProblem(http.StatusNotFound, producer.CodeNoSecret, "there is no such secret, or no longer")
	case errors.Is(err, producer.ErrTooManySecrets):
		return newProblem(http.StatusConflict, producer.CodeTooManySecrets, err.Error())
	case errors.Is(err, producer.ErrNoSecretsKey):
		return newProblem(http.StatusServiceUnavailable, producer.CodeNoSecretsKey, err.Error())
	case errors.Is(err, producer.ErrTooManyTokens):
		return newProblem(http.StatusConflict, producer.CodeTooManyTokens, err.Error())
	case errors.Is(err, producer.ErrNoRuntimes):
		return retryLater(newProblem(http.StatusServiceUnavailable, producer.CodeNoRuntimes, producer.ErrNoRuntimes.Error()))
	}
	if errors.As(err, &said) {
		switch said.Code {
		case producer.CodeForbidden:
			return newProblem(http.StatusForbidden, said.Code, said.Message)
		case producer.CodeConflict:
			return newProblem(http.StatusConflict, said.Code, err.Error())
		case producer.CodeRateLimited: // when to come back was said where that was known
			return newProblem(http.StatusTooManyRequests, said.Code, said.Message)
		case producer.CodeQuotaExceeded, producer.CodeTooManyWatchers:
			return retryLater(newProblem(http.StatusTooManyRequests, said.Code, said.Message))
		}
	}
	if ctx.Err() == nil { // else it is the client who left
		a.log.ErrorContext(ctx, "request not served", "request_id", requestID(ctx), "error", err)
	}
	return retryLater(newProblem(http.StatusServiceUnavailable, producer.CodeUnavailable,
		"Glovebox can't do this right now; its operator finds the reason under request id "+requestID(ctx)))
}

func retryLater(p problem) error {
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {"5"}})
}

// invalidProblem lists the wrong fields.
func invalidProblem(status int, fields job.Invalid) problem {
	p := newProblem(status, producer.CodeInvalid, "1 field is wrong")
	if len(fields) > 1 {
		p.Detail = fmt.Sprintf("%d fields are wrong", len(fields))
	}
	p.Errors = fields[:min(len(fields), maxFaults)]
	if len(fields) > maxFaults {
		p.Detail += fmt.Sprintf("; the first %d are listed", maxFaults)
	}
	return p
}

// ours makes a problem of what huma says by itself, when it refuses a body or a header
// before a handler sees it.
func (a *API) ours(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	switch {
	case m.Status >= http.StatusInternalServerError:
		return producer.NewProblem(m.Status, producer.CodeInternal, m.Detail), nil
	}
	code := producer.CodeInvalid
	p := producer.NewProblem(m.Status, code, m.Detail)
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, job.FieldError{Field: clip(e.Location), Message: e.Message, Allowed: "see /openapi.json"})
	}
	return p, nil
}

func writeProblem(w http.ResponseWriter, p *producer.Problem) {
	w.Header().Set("Content-Type", producer.ProblemMediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may have left
}

// writeError is for handlers that are not huma's.
func (a *API) writeError(w http.ResponseWriter, r *http.Request, err error) {
	writeAnswered(w, a.problem(r.Context(), err))
}

// writeAnswered writes what [API.problem] made of an error.
func writeAnswered(w http.ResponseWriter, err error) {
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			w.Header()[name] = values
		}
	}
	var p problem
	if errors.As(err, &p) {
		writeProblem(w, p.Problem)
	}
}
