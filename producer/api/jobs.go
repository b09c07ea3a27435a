package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

type submitInput struct {
	Prefer         string `header:"Prefer" doc:"wait=SECONDS holds the answer until the job has ended or the time is up (RFC 7240)." example:"wait=30"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The same as idempotency_key in the body." example:"order-1234"`
}

// cancelInput has text only: what is wrong with it is said like any other wrong field.
type cancelInput struct {
	ID    string `path:"id" doc:"The job's id."`
	Purge string `query:"purge"`
}

type getInput struct {
	ID     string `path:"id" doc:"The job's id."`
	Prefer string `header:"Prefer" doc:"wait=SECONDS holds the answer until the job has ended or the time is up (RFC 7240)." example:"wait=30"`
}

type jobOutput struct {
	Status            int
	Location          string `header:"Location" doc:"The job's own URL."`
	PreferenceApplied string `header:"Preference-Applied" doc:"The wait that was applied."`
	Body              any
}

func (a *API) submit(ctx context.Context, in *submitInput) (*jobOutput, error) {
	client := a.tenantClient(ctx)
	j, err := a.submitSent(ctx, client, "", in.IdempotencyKey)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.submitted(ctx, client, j, in.Prefer), nil
}

// submitSent submits the job in the request's body.
func (a *API) submitSent(ctx context.Context, client *direct.Client, _, key string) (j producer.Job, err error) {
	spec, done, err := readBody[job.Spec](ctx, a)
	if err != nil {
		return j, err
	}
	defer done() // what waits for the job holds nothing of the body
	if spec.IdempotencyKey, err = idempotencyKey(spec.IdempotencyKey, key); err != nil {
		return j, err
	}
	return client.Submit(ctx, spec)
}

// submitted answers that a job is accepted, or its result where the client waits for that.
func (a *API) submitted(ctx context.Context, client *direct.Client, j producer.Job, prefer string) *jobOutput {
	d := preferredWait(prefer, a.maxWait)
	if d > 0 {
		// The job is accepted: whatever goes wrong from here on must not hide that.
		if now, err := a.wait(ctx, client, j.ID, d); err == nil {
			j = now
		} else if ctx.Err() == nil {
			a.log.WarnContext(ctx, "waiting for a job ended early", "job_id", j.ID, "request_id", requestID(ctx), "error", err)
		}
	}
	return jobAnswer(j, http.StatusAccepted, d)
}

// idempotencyKey is that of a body, or of the header that means the same. It fails with
// job.Invalid where they differ.
func idempotencyKey(body, header string) (string, error) {
	if header == "" || body == header {
		return body, nil
	}
	if body != "" {
		return "", job.Invalid{{Field: "idempotency_key", Value: clip(body), Message: "is another one than that of the header Idempotency-Key", Allowed: "one of the two"}}
	}
	return header, nil
}

func (a *API) get(ctx context.Context, in *getInput) (*jobOutput, error) {
	client := a.tenantClient(ctx)
	d := preferredWait(in.Prefer, a.maxWait)
	if d == 0 {
		j, err := client.Get(ctx, in.ID)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return jobAnswer(j, http.StatusOK, 0), nil
	}
	j, err := a.wait(ctx, client, in.ID, d)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return jobAnswer(j, http.StatusAccepted, d), nil
}

func (a *API) cancel(ctx context.Context, in *cancelInput) (*jobOutput, error) {
	purge, err := purges(in.Purge)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if purge {
		noteOf(ctx).action = "job.purge"
		if err := callerOf(ctx).may(job.ScopeManage); err != nil {
			return nil, err
		}
		if err := a.tenantClient(ctx).Purge(ctx, in.ID); err != nil {
			return nil, a.problem(ctx, err)
		}
		return &jobOutput{Status: http.StatusNoContent}, nil
	}
	j, err := a.tenantClient(ctx).Cancel(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if callerOf(ctx).may(job.ScopeRead) != nil { // another may have submitted it
		told := producer.Job{Summary: job.Summary{ID: j.ID, Status: j.Status, Timing: j.Timing}}
		if j.Ended() {
			told.Result = &job.Result{ID: j.ID, Status: j.Status, Timing: j.Result.Timing, Artifacts: []job.Artifact{}}
		}
		j = told
	}
	return jobAnswer(j, http.StatusAccepted, 0), nil
}

// jobAnswer is 200 with the result, or unfinished with the record.
func jobAnswer(j producer.Job, unfinished int, waited time.Duration) *jobOutput {
	out := &jobOutput{Status: unfinished, Location: "/v1/jobs/" + j.ID, Body: j}
	if j.Ended() {
		out.Status = http.StatusOK
	}
	if waited > 0 {
		out.PreferenceApplied = waitApplied(waited)
	}
	return out
}

func waitApplied(waited time.Duration) string { return fmt.Sprintf("wait=%d", int(waited.Seconds())) }

// purges reads whether a DELETE is to purge. It fails with job.Invalid.
func purges(purge string) (bool, error) {
	switch purge {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, job.Invalid{{Field: "purge", Value: clip(purge), Message: "is not known", Allowed: "true or false"}}
}

type runtimesOutput struct {
	Body struct {
		Runtimes []producer.Runtime `json:"runtimes" doc:"What a job's runtime can name, by name." nullable:"false"`
		Images   []producer.Image   `json:"images" doc:"What a job's image can name." nullable:"false"`
	}
}

func (a *API) runtimes(ctx context.Context, _ *struct{}) (*runtimesOutput, error) {
	list, err := a.tenantClient(ctx).Runtimes(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	images, err := a.tenantClient(ctx).Images(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &runtimesOutput{}
	out.Body.Runtimes, out.Body.Images = list, images
	return out, nil
}
