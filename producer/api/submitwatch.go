package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/negotiation"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// submission is a route that makes a job.
type submission struct {
	*API

	// submit submits what is in the request's body, to what its path names, under the key of its header.
	submit func(ctx context.Context, client *direct.Client, id, key string) (producer.Job, error)
}

// orEvents is middleware that has a client which would rather have events than JSON watch the job in the same request.
func (a submission) orEvents(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if negotiation.SelectQValue(accept, []string{"application/json", eventStream}) != eventStream {
		next(ctx)
		return
	}
	a.submitAndWatch(w, r.WithContext(ctx.Context()))
}

func (a submission) submitAndWatch(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	release, err := a.watchers.acquire(callerOf(ctx).tenant)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer release()
	j, err := a.submit(ctx, a.tenantClient(ctx).Watching(), r.PathValue("id"), r.Header.Get("Idempotency-Key"))
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	note := noteOf(ctx) // the client may leave before the first event
	note.object, note.outcome = j.ID, job.OutcomeOK
	w.Header().Set("Location", "/v1/jobs/"+j.ID)
	if err = a.watch(w, r, callerOf(ctx), j.ID, ""); err == nil || ctx.Err() != nil {
		return
	}
	// The job is accepted: that it can't be watched must not hide that.
	a.log.WarnContext(ctx, "a new job could not be watched", "job_id", j.ID, "request_id", requestID(ctx), "error", err)
	answer := jobAnswer(j, http.StatusAccepted, 0)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Status)
	_ = marshal(w, answer.Body) // the client may have left
}
