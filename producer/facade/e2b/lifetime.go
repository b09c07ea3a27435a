package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// lifetime is a session's, for a timeout in seconds.
func lifetime(timeout int64) (int64, error) {
	if timeout > job.MaxTTLSeconds {
		return 0, facade.BadRequest(fmt.Sprintf("timeout is %d: Glovebox's sandboxes live %d seconds at most", timeout, job.MaxTTLSeconds))
	}
	return max(timeout, 1), nil
}

// livesFor is the change by which a sandbox lives so many seconds from now, whatever was asked of it, and when.
func livesFor(x job.Session, seconds int64) job.SessionChange {
	idle := min(seconds+int64(time.Since(x.CreatedAt).Seconds()), job.MaxTTLSeconds) // counted from its last execution, and it may have had none
	return job.SessionChange{TTLSeconds: &seconds, IdleSeconds: &idle}
}

// setTimeout lets a sandbox live so many seconds from now.
func setTimeout(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	prolong(w, r, c, "timeout", func(job.Session, int64) bool { return true })
}

// refreshSandbox is setTimeout that makes no life shorter.
func refreshSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	prolong(w, r, c, "duration", func(x job.Session, asked int64) bool {
		return time.Now().Add(time.Duration(asked) * time.Second).After(x.ExpiresAt)
	})
}

// prolong lets a sandbox live as many seconds from now as the field says, where that is wanted.
func prolong(w http.ResponseWriter, r *http.Request, c *facade.Call, field string, wanted func(x job.Session, asked int64) bool) {
	ctx, id := r.Context(), r.PathValue("id")
	x, err := running(ctx, c, id)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	q, err := readRequest(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	asked, given, err := q.number(field)
	if err == nil && !given {
		err = facade.BadRequest(field + " is missing: want seconds")
	}
	if err == nil {
		asked, err = lifetime(asked)
	}
	if err == nil && wanted(x, asked) {
		c.Host.Note(id)
		_, err = changeLife(ctx, c, x, asked)
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// changeLife lets a sandbox live as many seconds from now. One that has ended meanwhile is not found.
func changeLife(ctx context.Context, c *facade.Call, x job.Session, seconds int64) (job.Session, error) {
	changed, err := c.Client.ChangeSession(ctx, x.ID, livesFor(x, seconds))
	switch {
	case errors.Is(err, job.ErrSessionEnded):
		err = statusError{http.StatusNotFound, fmt.Sprintf("sandbox %.100q not found", x.ID)}
	case err != nil:
		err = inTheirWords(err)
	}
	return changed, err
}
