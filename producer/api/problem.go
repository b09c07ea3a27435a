package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// problem is a producer.Problem in the form that huma writes.
type problem struct{ *producer.Problem }

func (p problem) GetStatus() int            { return p.Status }
func (p problem) Error() string             { return p.Detail }
func (p problem) ContentType(string) string { return producer.ProblemMediaType }

// newProblem has the status of its code.
func newProblem(code, detail string) problem {
	return problem{producer.NewProblem(statuses[code], code, detail)}
}

// malformed is about a body that can't be read at all, where CodeInvalid is about its fields.
func malformed(detail string) problem {
	return problem{producer.NewProblem(http.StatusBadRequest, job.CodeInvalid, detail)}
}

// statuses are the HTTP status of each code.
var statuses = map[string]int{
	job.CodeInvalid:           http.StatusUnprocessableEntity,
	job.CodeUnauthorized:      http.StatusUnauthorized,
	job.CodeForbidden:         http.StatusForbidden,
	job.CodeMissingScope:      http.StatusForbidden,
	job.CodeNotFound:          http.StatusNotFound,
	job.CodeNoRoute:           http.StatusNotFound,
	job.CodeNoTenant:          http.StatusNotFound,
	job.CodeNoToken:           http.StatusNotFound,
	job.CodeNoSecret:          http.StatusNotFound,
	job.CodeNoTemplate:        http.StatusNotFound,
	job.CodeNoProblem:         http.StatusNotFound,
	job.CodeNoHook:            http.StatusNotFound,
	job.CodeNoSchedule:        http.StatusNotFound,
	job.CodeMethodNotAllowed:  http.StatusMethodNotAllowed,
	job.CodeTimeout:           http.StatusRequestTimeout,
	job.CodeEnded:             http.StatusConflict,
	job.CodeNotEnded:          http.StatusConflict,
	job.CodeNotRunning:        http.StatusConflict,
	job.CodeNoInput:           http.StatusConflict,
	job.CodeDenied:            http.StatusForbidden,
	job.CodeNotHeld:           http.StatusConflict,
	job.CodeOtherInput:        http.StatusConflict,
	job.CodeConflict:          http.StatusConflict,
	job.CodeTenantExists:      http.StatusConflict,
	job.CodeRevision:          http.StatusConflict,
	job.CodeNotDisabled:       http.StatusConflict,
	job.CodeTooManyTokens:     http.StatusConflict,
	job.CodeTooManySecrets:    http.StatusConflict,
	job.CodeTooManyTemplates:  http.StatusConflict,
	job.CodeTooManyProblems:   http.StatusConflict,
	job.CodeTooManyHooks:      http.StatusConflict,
	job.CodeTooManySchedules:  http.StatusConflict,
	job.CodeRotating:          http.StatusConflict,
	job.CodeNoEndpoint:        http.StatusNotFound,
	job.CodeTooManyEndpoints:  http.StatusConflict,
	job.CodePending:           http.StatusConflict,
	job.CodeGone:              http.StatusGone,
	job.CodeSessionEnded:      http.StatusGone,
	job.CodeUnforkable:        http.StatusConflict,
	job.CodeSessionBusy:       http.StatusTooManyRequests,
	job.CodeNoContext:         http.StatusNotFound,
	job.CodeTooManyContexts:   http.StatusConflict,
	job.CodeNoFile:            http.StatusNotFound,
	job.CodeFileRefused:       http.StatusConflict,
	job.CodeGenerationChanged: http.StatusConflict,
	job.CodeTooLarge:          http.StatusRequestEntityTooLarge,
	job.CodeMediaType:         http.StatusUnsupportedMediaType,
	job.CodeRateLimited:       http.StatusTooManyRequests,
	job.CodeQuotaExceeded:     http.StatusTooManyRequests,
	job.CodeBudgetExceeded:    http.StatusPaymentRequired,
	job.CodeTooManyWatchers:   http.StatusTooManyRequests,
	job.CodeNoRuntimes:        http.StatusServiceUnavailable,
	job.CodeNoSecretsKey:      http.StatusServiceUnavailable,
	job.CodeWaitOver:          http.StatusServiceUnavailable,
	job.CodeJobFailed:         http.StatusInternalServerError,
	job.CodeUnavailable:       http.StatusServiceUnavailable,
	job.CodeInternal:          http.StatusInternalServerError,
}

// problem says what err means to the client. What it doesn't foresee is Redis or the
// bucket failing: that is logged, and the client is told to try again.
func (a *API) problem(ctx context.Context, err error) error {
	var p problem
	var invalid job.Invalid
	var said *job.Error
	var told huma.HeadersError
	var gone *job.GoneError
	var over *job.WaitOverError
	var changed *job.GenerationError
	switch {
	case errors.As(err, &told):
		return err
	case errors.Is(err, errShareFull), errors.Is(err, errMemoryFull):
		return memoryProblem(err)
	case errors.As(err, &p):
		return p
	case errors.As(err, &invalid):
		return invalidProblem(invalid)
	case errors.As(err, &gone):
		p = newProblem(job.CodeGone, err.Error())
		p.ID = gone.ID
		return p
	case errors.As(err, &changed):
		p = newProblem(job.CodeGenerationChanged, err.Error())
		p.Generation, p.Context = changed.Generation, changed.Context
		return p
	case errors.As(err, &over):
		p = newProblem(job.CodeWaitOver, err.Error())
		p.ID = over.ID
		return retryLater(p)
	case errors.As(err, &said):
		switch said.Code {
		case job.CodeUnavailable, job.CodeInternal: // what failed is not for the client
		case job.CodeNoRuntimes, job.CodeQuotaExceeded, job.CodeTooManyWatchers, job.CodeSessionBusy:
			return retryLater(newProblem(said.Code, said.Message))
		case job.CodeConflict:
			return newProblem(said.Code, err.Error()) // with the job of a batch
		default: // when to come back after CodeRateLimited was said where that was known
			if statuses[said.Code] != 0 {
				return newProblem(said.Code, said.Message)
			}
		}
	}
	if ctx.Err() == nil { // else it is the client who left
		a.log.ErrorContext(ctx, "request not served", "request_id", requestID(ctx), "error", err)
	}
	return retryLater(newProblem(job.CodeUnavailable,
		"Glovebox can't do this right now; its operator finds the reason under request id "+requestID(ctx)))
}

func retryLater(p problem) error {
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {"5"}})
}

// errEnding is answered by an API that drains.
var errEnding = huma.ErrorWithHeaders(newProblem(job.CodeUnavailable, "this api process is ending; another may answer"), http.Header{"Retry-After": {"1"}})

// invalidProblem lists the wrong fields.
func invalidProblem(fields job.Invalid) problem {
	p := newProblem(job.CodeInvalid, "1 field is wrong")
	if len(fields) > 1 {
		p.Detail = fmt.Sprintf("%d fields are wrong", len(fields))
	}
	p.Errors = fields[:min(len(fields), strictjson.MaxFaults)]
	if len(fields) > strictjson.MaxFaults {
		p.Detail += fmt.Sprintf("; the first %d are listed", strictjson.MaxFaults)
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
		return producer.NewProblem(m.Status, job.CodeInternal, m.Detail), nil
	}
	code := job.CodeInvalid
	p := producer.NewProblem(m.Status, code, m.Detail)
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, job.FieldError{Field: clip(e.Location), Message: e.Message, Allowed: "see /openapi.json"})
	}
	return p, nil
}

func writeProblem(w http.ResponseWriter, p problem) {
	w.Header().Set("Content-Type", producer.ProblemMediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // the client may have left
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
		writeProblem(w, p)
	}
}
