package jobe

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

var (
	fileID   = regexp.MustCompile(`^[0-9A-Za-z]{8,64}$`)
	fileName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,255}$`)
)

// putFile keeps a file under the name that the client chose, in the place of another.
func putFile(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx, id := r.Context(), r.PathValue("id")
	if !fileID.MatchString(id) {
		write(w, http.StatusBadRequest, "The file id is not 8 to 64 letters and digits")
		return
	}
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		refuse(w, r, c.Host.Problem(ctx, err))
		return
	}
	defer done()
	var sent struct {
		Contents *string `json:"file_contents"`
	}
	if json.Unmarshal(body, &sent) != nil || sent.Contents == nil {
		write(w, http.StatusBadRequest, "put: missing file_contents parameter in post")
		return
	}
	content, err := base64.StdEncoding.DecodeString(*sent.Contents)
	if err != nil {
		write(w, http.StatusBadRequest, "put: contents of file "+id+" are not valid base-64")
		return
	}
	if err := c.Client.KeepFile(ctx, id, content); err != nil {
		refuse(w, r, c.Host.Problem(ctx, err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// headFile says whether a file is kept.
func headFile(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx, id := r.Context(), r.PathValue("id")
	err := error(job.ErrNotFound)
	if fileID.MatchString(id) {
		_, err = c.Client.FindFile(ctx, id)
	}
	switch {
	case errors.Is(err, job.ErrNotFound):
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		refuse(w, r, c.Host.Problem(ctx, err))
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
