package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// deliverWeight is how many times its size a request to a hook takes while it is worked on: decoded, JSON
// of short numbers takes most.
const deliverWeight = 24

// deliverRoute is for senders. It is a plain handler: what is signed is the body as it came, of whatever
// type, and nobody has a token.
func (a *API) deliverRoute(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	mux.HandleFunc("POST /v1/hooks/{id}", a.deliver)
	op := d.operation("deliver-to-hook", http.MethodPost, "/v1/hooks/{id}", "Start a hook's template",
		"For the hook's sender, whose signature is looked at in place of a token. 202 says that the job is accepted durably; the same delivery once more is answered with the same job. With answer result the answer is what the job printed, or what its artifact response.json says; 500 if it failed, 504 if it timed out, 504 (wait_over) if it has not ended in time. Glovebox-Job-Id names the job. A sender's handshake is answered as it wants. A hook that is not there, or paused, is 404.",
		d.answers(200, "A handshake's answer, or what the job printed", nil), d.answers(202, "The job is accepted", d.schema(producer.HookAccepted{})), d.problems(400, 401, 404, 413, 422, 500, 503, 504))
	op.Parameters = []*huma.Param{{Name: "id", In: "path", Required: true, Description: "The hook's id.", Schema: text()}}
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"*/*": {}}}
	delete(op.Responses, "403") // there is no token
	doc.AddOperation(&op)

	mux.HandleFunc("OPTIONS /v1/hooks/{id}", a.allowCloudEvents)
	options := d.operation("allow-cloudevents", http.MethodOptions, "/v1/hooks/{id}", "Allow a sender of CloudEvents",
		"The handshake of CloudEvents' webhooks: WebHook-Request-Origin is answered with WebHook-Allowed-Origin, whether there is such a hook or not.",
		d.answers(200, "The sender may post", nil), d.problems(400))
	options.Parameters = op.Parameters
	delete(options.Responses, "403")
	delete(options.Responses, "429")
	doc.AddOperation(&options)
}

// allowCloudEvents answers as "HTTP 1.1 Web Hooks for Event Delivery" 4.2 has it. It tells nothing of
// which hooks there are: what may start a job is the token's to say.
func (a *API) allowCloudEvents(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("WebHook-Request-Origin")
	if origin == "" || len(origin) > 255 {
		writeProblem(w, malformed("the header WebHook-Request-Origin is missing"))
		return
	}
	w.Header().Set("Allow", http.MethodPost)
	w.Header().Set("WebHook-Allowed-Origin", origin)
	if r.Header.Get("WebHook-Request-Rate") != "" {
		w.Header().Set("WebHook-Allowed-Rate", "*")
	}
	w.WriteHeader(http.StatusOK)
}

// deliver verifies a request, and answers it once its job is accepted durably, or has ended.
func (a *API) deliver(w http.ResponseWriter, r *http.Request) {
	delivered, err := a.accept(w, r)
	switch {
	case err != nil:
		a.writeError(w, r, a.hookProblem(r.Context(), err))
	case delivered.Handshake != nil:
		note := noteOf(r.Context())
		if note.action, note.object = "hook.confirm", r.PathValue("id"); !delivered.Subscribed {
			*note = auditNote{} // nothing changes: nothing to write down
		}
		writeHandshake(w, *delivered.Handshake)
	default:
		note := noteOf(r.Context())
		note.action, note.object, note.outcome = "job.submit", delivered.JobID, job.OutcomeOK
		if delivered.RunID != "" {
			note.action, note.object = "run.start", delivered.RunID
		}
		if delivered.Hook.Answer == job.AnswerResult && delivered.JobID != "" {
			a.writeResult(w, r, delivered)
		} else {
			writeAccepted(w, delivered)
		}
	}
}

// accept starts the job of a request. What that holds of the body is given back when it returns.
func (a *API) accept(w http.ResponseWriter, r *http.Request) (direct.Delivered, error) {
	ctx, id := r.Context(), r.PathValue("id")
	var none direct.Delivered
	tenant, ok := job.TenantOfHook(id)
	if !ok {
		return none, job.ErrNoHook
	}
	if r.ContentLength >= job.MaxHookBody {
		w.Header().Set("Connection", "close")
		return none, tooLarge(job.MaxHookBody)
	}
	knock, err := a.answering(ctx, tenant).OpenHook(ctx, id)
	if err != nil {
		return none, err
	}
	held := &reservation{budget: a.bodies, tenant: tenant}
	if r.ContentLength >= 0 && r.ContentLength <= smallBody {
		held.budget = a.smallBodies
	}
	defer held.release()
	r.Body = http.MaxBytesReader(w, r.Body, job.MaxHookBody)
	body, err := a.readHeld(ctx, sentBody{w, r, job.MaxHookBody}, held)
	if err != nil {
		return none, err
	}
	work := &reservation{budget: a.work}
	defer work.release()
	if err := work.add(ctx, min(deliverWeight*int64(len(body)), a.work.share), workPatience); err != nil {
		return none, err
	}
	counted := false
	count := func() error { // once: before anything is fetched for the request, or else once its sender is known
		if counted {
			return nil
		}
		counted = true
		return a.count(w, r, caller{tenant: tenant, token: job.Token{ID: id}})
	}
	if err := knock.Verify(ctx, hooks.Request{Header: r.Header, RawQuery: r.URL.RawQuery, Body: body, Permit: count}); err != nil {
		return none, err
	}
	if err := count(); err != nil {
		return none, err
	}
	return knock.Deliver(ctx)
}

func writeHandshake(w http.ResponseWriter, h hooks.Answer) {
	if h.ContentType != "" {
		w.Header().Set("Content-Type", h.ContentType)
	}
	w.WriteHeader(h.Status)
	_, _ = w.Write(h.Body) // the sender may have left
}

func writeAccepted(w http.ResponseWriter, d direct.Delivered) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = marshal(w, d.HookAccepted) // the sender may have left
}

// hookProblem is what a sender is told: 401 for a request that is not its own, and "come back" where
// there is no room, as many senders take any 4xx for the last word.
func (a *API) hookProblem(ctx context.Context, err error) error {
	if errors.Is(err, hooks.ErrSignature) || errors.Is(err, hooks.ErrTime) {
		return newProblem(job.CodeUnauthorized, err.Error())
	}
	var said *job.Error
	if errors.As(err, &said) && said.Code == job.CodeQuotaExceeded {
		return retryLater(newProblem(job.CodeUnavailable, said.Message))
	}
	if errors.As(err, &said) && said.Code == job.CodeBudgetExceeded { // how much that is, is not a sender's business
		return retryLater(newProblem(job.CodeUnavailable, "the tenant's budget is spent for now"))
	}
	if errors.As(err, &said) && said.Code == job.CodeDenied { // the rule and its message are for the owner, in the hook's deliveries
		return newProblem(job.CodeInvalid, "the rules of the hook's owner refuse it")
	}
	if errors.As(err, &said) && said.Code == job.CodeNoTemplate {
		return newProblem(job.CodeInvalid, "the hook's template is not there any more")
	}
	return a.problem(ctx, err)
}
