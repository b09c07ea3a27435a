package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// executeWait is how long code is waited for: what it may run, as much to wait for its turn,
	// and a margin. Proxies end a request that is silent for a minute.
	executeWait = 30 * time.Second
	// executeCPUs is the share of a processor that it gets, unless its tenant has less.
	executeCPUs = 0.5
	// nano is what prices are counted in.
	nano = 1e9
)

type executeInput struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"Up to 255 printable ASCII characters. The same code again under the same key, within 24 hours, is not run again: its answer is that of the first, which is waited for if it still runs." example:"order-1234"`
}

type executeOutput struct {
	Location string `header:"Location" doc:"The job's own URL, where its whole result is."`
	Body     producer.Execution
}

func (a *API) executeRoute(h huma.API, d documenter) {
	execute := d.operation("execute-code", http.MethodPost, "/v1/code-sandbox/execute", "Run code and answer what it did",
		"Runs code as a job with the limits of its runtime (10 seconds and 256 MiB, unless the runtime says otherwise) and half a processor, and holds the answer until it has ended, up to 30 seconds. "+
			"Whatever the code did is answered with 200. Where it has not ended by then, the answer is 503 (wait_over) with the job's id: the job goes on, and GET /v1/jobs/{id}, or the same request under the same Idempotency-Key, has its result later.",
		d.answers(200, "The code has ended", d.schema(producer.Execution{})),
		d.problems(400, 401, 402, 409, 410, 413, 415, 500, 503))
	execute.MaxBodyBytes = recordBody // JSON may make a byte of code six
	execute.RequestBody = jsonBody()
	huma.Register(h, execute, a.execute)
	execute.RequestBody.Content["application/json"].Schema = d.schema(producer.ExecuteRequest{})
}

// execute submits code as a job, and waits for it.
func (a *API) execute(ctx context.Context, in *executeInput) (*executeOutput, error) {
	request, done, err := readBody[producer.ExecuteRequest](ctx, a)
	if err != nil {
		return nil, a.executeProblem(ctx, err)
	}
	defer done()
	if err := checkCode(request.Code); err != nil {
		return nil, err
	}
	client := a.tenantClient(ctx)
	spec := job.Spec{Runtime: request.Language, Source: request.Code, IdempotencyKey: in.IdempotencyKey}
	limits, limitsErr := client.LimitsOf(ctx, spec)
	spec.Limits.CPUs = executeCPUs
	asked := spec // under the same key the tenant may ask when it has more of a processor, or less
	switch {
	case limitsErr == nil:
		spec.Limits.CPUs = min(executeCPUs, limits.CPUs)
	case spec.IdempotencyKey == "" || job.CodeOf(limitsErr) == "":
		return nil, a.executeProblem(ctx, limitsErr)
	default: // Submit says so, too, unless the key has a job already
	}
	j, err := client.WithoutHolds().SubmitAsked(ctx, spec, asked)
	done() // a wait holds nothing of the body
	if err != nil {
		return nil, a.executeProblem(ctx, err)
	}
	note := noteOf(ctx)
	note.object, note.outcome = j.ID, job.OutcomeOK
	location := http.Header{"Location": {"/v1/jobs/" + j.ID}}
	ended, err := a.wait(ctx, client, j.ID, min(executeWait, a.maxWait))
	if err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "waiting for a job ended early", "job_id", j.ID, "request_id", requestID(ctx), "error", err)
	}
	if err != nil || !ended.Ended() {
		return nil, huma.ErrorWithHeaders(a.problem(ctx, &job.WaitOverError{ID: j.ID}), location)
	}
	result := *ended.Result
	if result.Status == job.InternalError {
		return nil, huma.ErrorWithHeaders(notRun(result), location)
	}
	out := &executeOutput{Location: location.Get("Location"), Body: execution(result)}
	switch {
	case result.Cost != nil:
		cost := float64(result.Cost.Nano) / nano
		out.Body.Cost = &cost
	case a.prices != nil && limitsErr == nil: // its worker has no prices
		out.Body.Cost = cost(*a.prices, result, limits)
	}
	return out, nil
}

// checkCode refuses code that is too large for this endpoint, though a job's could be larger.
func checkCode(code string) error {
	if len(code) <= producer.MaxCodeBytes {
		return nil
	}
	p := newProblem(job.CodeTooLarge, "the code is too large")
	p.Errors = job.Invalid{{Field: "code", Value: fmt.Sprintf("%d bytes", len(code)), Message: "is too large", Allowed: allowedCode}}
	return p
}

var allowedCode = fmt.Sprintf("the program's text, 1 to %d bytes", producer.MaxCodeBytes)

// executeProblem is API.problem in the names of this endpoint, which answers 400 for all that is
// wrong with a request.
func (a *API) executeProblem(ctx context.Context, err error) error {
	err = a.problem(ctx, err)
	var p problem
	if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
		return err
	}
	p.Status, p.Title = http.StatusBadRequest, http.StatusText(http.StatusBadRequest)
	for i := range p.Errors {
		switch f := &p.Errors[i]; f.Field {
		case "runtime":
			f.Field = "language"
		case "source":
			f.Field = "code"
			if f.Value == nil { // else the tenant's limits allow less
				f.Allowed = allowedCode
			}
		case "idempotency_key":
			f.Field = "Idempotency-Key"
		}
	}
	return err
}

// notRun is the problem of a job that Glovebox failed.
func notRun(r job.Result) problem {
	p := newProblem(job.CodeInternal, "Glovebox could not run the code")
	if r.Error != nil {
		p.Detail += ": " + r.Error.Message
	}
	p.ID = r.ID
	return p
}

// execution is what this endpoint says of a result.
func execution(r job.Result) producer.Execution {
	e := producer.Execution{
		Stdout: r.Stdout, Stderr: r.Stderr, ExitCode: r.ExitCode, ExecutionTimeMS: r.Usage.WallMS,
		MemoryUsageMB: math.Round(float64(r.Usage.MemoryPeakBytes)/(1<<20)*10) / 10, TimedOut: r.Status == job.TimedOut,
	}
	if r.Status == job.CompileFailed && r.Compile != nil {
		e.Stderr = r.Compile.Output
	}
	if r.Status != job.Succeeded {
		why := fault(r)
		e.Error = &why
	}
	return e
}

// fault says in one sentence why a job did not succeed.
func fault(r job.Result) string {
	switch r.Status {
	case job.TimedOut:
		return "Execution timed out"
	case job.OutOfMemory:
		return "Out of memory"
	case job.OutputLimitExceeded:
		return "Output limit exceeded"
	case job.CompileFailed:
		return "Compilation failed"
	}
	switch {
	case r.Error != nil:
		return r.Error.Message
	case r.Signal != "":
		return "Killed by " + r.Signal
	case r.ExitCode != nil:
		return fmt.Sprintf("Exited with code %d", *r.ExitCode)
	}
	return "Canceled"
}

// cost is what a job cost, in the operator's currency. What was canceled costs nothing.
func cost(p job.Prices, r job.Result, limits job.Limits) *float64 {
	var c float64
	if r.ExitCode != nil {
		c = float64(p.Cost(r.Usage, limits.MemoryMB)) / nano
	}
	return &c
}
