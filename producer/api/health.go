package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
)

const (
	readyTimeout = 5 * time.Second
	// readyFor is how long an answer of /readyz holds: anybody may ask, and asking
	// writes to Redis.
	readyFor = time.Second
)

type healthOutput struct {
	Body struct {
		Status string `json:"status" example:"ok"`
	}
}

func healthy() *healthOutput {
	out := &healthOutput{}
	out.Body.Status = "ok"
	return out
}

// health says that the process answers.
func (a *API) health(context.Context, *struct{}) (*healthOutput, error) { return healthy(), nil }

// readiness remembers the last look at Redis and the bucket.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// readyz says whether a job submitted now would be accepted durably. Why not is for
// the log: this route is open to anybody.
func (a *API) readyz(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	a.ready.mu.Lock()
	defer a.ready.mu.Unlock()
	if time.Since(a.ready.at) > readyFor {
		// Not the client's context: the answer is for others too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		a.ready.err = a.client.Ready(ctx)
		a.ready.at = time.Now()
		if a.ready.err != nil {
			a.log.WarnContext(ctx, "not ready", "error", a.ready.err)
		}
	}
	if a.draining.Err() != nil || a.ready.err != nil {
		p := newProblem(job.CodeUnavailable, "a job submitted now would not be accepted")
		return nil, huma.ErrorWithHeaders(p, http.Header{"Retry-After": {"5"}})
	}
	return healthy(), nil
}
