package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// file sends a file of a job: a redirect to the bucket, or the text itself where the
// record holds it. path tells which file, from the request's URL.
func (a *API) file(path func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, path := r.PathValue("id"), path(r)
		c, err := a.reader(w, r, id, path)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		client := a.answering(r.Context(), c.tenant)
		f, err := client.Locate(r.Context(), id, path)
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		if f.Key == "" {
			writeText(w, f)
			return
		}
		target, err := client.Presign(r.Context(), f, a.life)
		if err != nil {
			a.writeError(w, r, fmt.Errorf("presign: %w", err))
			return
		}
		w.Header().Set("Location", target)
		w.WriteHeader(http.StatusFound)
	}
}

// reader returns who may read a file of the tenant's: whoever has the capability in its URL,
// or a token.
func (a *API) reader(w http.ResponseWriter, r *http.Request, id, path string) (caller, error) {
	token := r.URL.Query().Get("token")
	if token == "" {
		return a.admit(w, r)
	}
	tenant, err := a.links.Verify(token, id, path)
	switch {
	case errors.Is(err, artifacts.ErrTokenExpired):
		return caller{}, newProblem(job.CodeForbidden, "this link has expired")
	case err != nil:
		return caller{}, newProblem(job.CodeForbidden, "this link is not valid; GET the job for one that is")
	}
	return caller{tenant: tenant}, a.client.For(tenant).Enabled(r.Context())
}

func writeText(w http.ResponseWriter, f direct.File) {
	h := w.Header()
	h.Set("Content-Type", f.MediaType)
	h.Set("Content-Length", strconv.Itoa(len(f.Text)))
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": f.Name}))
	_, _ = io.WriteString(w, f.Text) // the client may have left
}
