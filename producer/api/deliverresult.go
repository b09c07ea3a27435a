package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// jobIDHeader names the job that an answer of a hook is of.
const jobIDHeader = "Glovebox-Job-Id"

// writeResult waits for the job of a delivery, and answers what it printed. Of a sender that leaves, the job
// goes on; the same delivery once more is answered with the same job's result.
func (a *API) writeResult(w http.ResponseWriter, r *http.Request, d direct.Delivered) {
	ctx := r.Context()
	tenant, _ := job.TenantOf(d.JobID)
	client := a.answering(ctx, tenant)
	w.Header().Set(jobIDHeader, d.JobID)
	ended, err := a.wait(ctx, client, d.JobID, a.answerWait(r, d.Hook))
	requestOf(ctx).byJob = err == nil && (!ended.Ended() || ended.Result.Status != job.InternalError)
	switch {
	case ctx.Err() != nil: // nobody is there to be answered
	case errors.Is(err, job.ErrNotFound): // purged: the delivery is known still, and 2xx ends its retries
		writeAccepted(w, d)
	case err != nil:
		a.writeError(w, r, err)
	case !ended.Ended():
		a.writeError(w, r, retryLater(jobProblem(http.StatusGatewayTimeout, job.CodeWaitOver, d.JobID, (&job.WaitOverError{ID: d.JobID}).Error())))
	case ended.Result.Status == job.TimedOut:
		a.writeError(w, r, jobProblem(http.StatusGatewayTimeout, job.CodeJobFailed, d.JobID, "the hook's job ended as timed_out"))
	case ended.Result.Status != job.Succeeded: // what it printed of its failure is for its owner
		a.writeError(w, r, jobProblem(http.StatusInternalServerError, job.CodeJobFailed, d.JobID, fmt.Sprintf("the hook's job ended as %s", ended.Result.Status)))
	default:
		reply, err := client.Reply(ctx, *ended.Result, d.Hook.ContentType)
		var invalid job.Invalid
		switch {
		case errors.As(err, &invalid):
			p := jobProblem(http.StatusInternalServerError, job.CodeJobFailed, d.JobID, "the hook's job succeeded, but what it answers can't be sent")
			p.Errors = invalid[:min(len(invalid), strictjson.MaxFaults)]
			a.writeError(w, r, p)
		case err != nil:
			requestOf(ctx).byJob = false
			a.writeError(w, r, err)
		default:
			writeReply(w, reply)
		}
	}
}

// answerWait is how long an answer is held: as the hook says, or less where the request does.
func (a *API) answerWait(r *http.Request, h job.HookSettings) time.Duration {
	most := min(h.AnswerWait(), a.maxWait)
	if less := preferredWait(r.Header.Get("Prefer"), most); less > 0 {
		return less
	}
	return most
}

func jobProblem(status int, code, id, detail string) problem {
	p := problem{producer.NewProblem(status, code, detail)}
	p.ID = id
	return p
}

// writeReply sends a stranger's bytes from the API's origin: of a type that is no active content, which no
// browser guesses otherwise, and in a sandbox (identify sets nosniff and the policy).
func writeReply(w http.ResponseWriter, reply direct.Reply) {
	h := w.Header()
	for name, value := range reply.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", reply.ContentType)
	if reply.Download {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(reply.Name)}))
	}
	if reply.Status == http.StatusNoContent {
		w.WriteHeader(reply.Status)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // the sender may have left
}
