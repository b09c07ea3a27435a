package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Jobs submits jobs and waits for their results. It is safe for concurrent use.
//
// [Client] is Jobs over the API; most of what it does besides has interfaces of its own, so that a
// program names, and a test fakes, only what it needs: [Batches], [Watcher], [Files],
// [Lister], [Uploader], [Purger], [Interactive], [Catalog], [Secrets], [Templates], [Webhooks] and [Tenants].
type Jobs interface {
	// Submit accepts a job durably: once it returns, the job will come to a result.
	// It fails with job.Invalid where the spec is wrong, and with a *job.Error of code
	// quota_exceeded where the tenant's queue is full; then nothing is enqueued. With the
	// IdempotencyKey of an earlier spec it returns the job of that, as it is by now,
	// job.ErrConflict where the two differ, or a *job.GoneError where the job is no longer kept.
	Submit(ctx context.Context, spec job.Spec) (Job, error)
	// Get returns the job as it is now, or job.ErrNotFound.
	Get(ctx context.Context, id string) (Job, error)
	// Wait returns the job once it has ended. When ctx ends before that, Wait fails
	// with ctx's error; the job goes on.
	Wait(ctx context.Context, id string) (Job, error)
	// Cancel ends a queued job at once, and asks for the end of a running one: then
	// the job that it returns has not ended yet. Cancelling a canceled job again
	// changes nothing; a job that ended otherwise is job.ErrEnded.
	Cancel(ctx context.Context, id string) (Job, error)
}

// Job is a job as it is now: its record, and once it has ended its result.
type Job struct {
	job.Summary
	// Result is nil until the job has ended.
	Result *job.Result
}

// Ended reports whether there is a result.
func (j Job) Ended() bool { return j.Result != nil }

// MarshalJSON writes what GET /v1/jobs/{id} answers: the result, or until there is
// one the record.
func (j Job) MarshalJSON() ([]byte, error) {
	if j.Result != nil {
		return json.Marshal(j.Result)
	}
	return json.Marshal(j.Summary)
}

// UnmarshalJSON reads what MarshalJSON wrote. A record made from a result has no
// priority.
func (j *Job) UnmarshalJSON(b []byte) error {
	*j = Job{}
	if err := json.Unmarshal(b, &j.Summary); err != nil {
		return err
	}
	if j.ID == "" || j.Status == "" {
		return errors.New("neither a job's record nor a result: id or status is missing")
	}
	if !j.Status.Final() {
		return nil
	}
	j.Result = new(job.Result)
	return json.Unmarshal(b, j.Result)
}

// Submit is [Jobs.Submit]. With an idempotency key it bears with an API that is away, or
// an answer that gets lost, for up to 30 s.
func (c *Client) Submit(ctx context.Context, spec job.Spec) (Job, error) {
	return c.submit(ctx, spec, 0)
}

// Run submits a job and returns it once it has ended: of a job that ends within 30 s it is
// one request. When it fails, the job may have been accepted, and goes on: an idempotency key
// finds it again.
func (c *Client) Run(ctx context.Context, spec job.Spec) (Job, error) {
	j, err := c.submit(ctx, spec, waitSeconds)
	if err != nil || j.Ended() {
		return j, err
	}
	return c.Wait(ctx, j.ID)
}

// submit asks the API to hold its answer for that many seconds, until the job has ended.
func (c *Client) submit(ctx context.Context, spec job.Spec, wait int) (Job, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return Job{}, fmt.Errorf("encode spec: %w", err)
	}
	return c.post(ctx, "/v1/jobs", wait, b, spec.IdempotencyKey != "")
}

// post asks for a job until it is known if there is one, where that is keyed: asking twice makes one.
func (c *Client) post(ctx context.Context, path string, wait int, b []byte, keyed bool) (Job, error) {
	once := func() (j Job, err error) {
		err = c.json(ctx, http.MethodPost, path, wait, b, &j)
		return j, err
	}
	if !keyed {
		return once()
	}
	return insist(ctx, once)
}

// insist asks for what is keyed for up to 30 s, until it is known if it is there.
func insist[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	var failing time.Time
	for {
		j, err := ask()
		if !broke(err) {
			return j, err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > outage {
			return j, err
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return j, errors.Join(ctx.Err(), err)
		}
	}
}

// broke reports whether an error leaves open if the API has done what it was asked for.
func broke(err error) bool {
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeTimeout:
		return true
	case "":
		return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return false
}

// Get is [Jobs.Get].
func (c *Client) Get(ctx context.Context, id string) (Job, error) {
	return c.job(ctx, http.MethodGet, id, 0)
}

// Cancel is [Jobs.Cancel].
func (c *Client) Cancel(ctx context.Context, id string) (Job, error) {
	return c.job(ctx, http.MethodDelete, id, 0)
}

// Wait is [Jobs.Wait]. The API holds each request until the job ends or 30 s have
// passed. Wait bears with an API that is away for up to 30 s.
func (c *Client) Wait(ctx context.Context, id string) (Job, error) {
	return await(ctx, func(ctx context.Context) (Job, bool, error) {
		j, err := c.job(ctx, http.MethodGet, id, waitSeconds)
		return j, j.Ended(), err
	})
}

// await asks, with a request that the API holds, until a job or a batch has ended.
func await[T any](ctx context.Context, ask func(context.Context) (v T, ended bool, err error)) (T, error) {
	var none T
	var failing time.Time
	for {
		round := time.Now()
		v, ended, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return none, ctx.Err()
		case err == nil && ended:
			return v, nil
		case err == nil:
			failing = time.Time{}
		case !Temporary(err), !failing.IsZero() && time.Since(failing) > outage:
			return none, err
		case failing.IsZero():
			failing = time.Now()
		}
		select {
		case <-time.After(minRound - time.Since(round)):
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

func (c *Client) job(ctx context.Context, method, id string, wait int) (Job, error) {
	var j Job
	if !isJobID(id) {
		return j, job.ErrNotFound // "..", say, would mean another URL
	}
	err := c.json(ctx, method, JobPath(id), wait, nil, &j)
	return j, err
}

func isJobID(id string) bool {
	_, ok := job.TenantOf(id)
	return ok
}
