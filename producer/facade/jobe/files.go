package jobe

import (
	"crypto/md5" //nolint:gosec // it is how clients name files
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

var (
	fileID   = regexp.MustCompile(`^[0-9A-Za-z]{8,64}$`)
	md5ID    = regexp.MustCompile(`^[0-9A-Fa-f]{32}$`)
	fileName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,255}$`)
)

// putFile keeps a file under the name that the client chose, in the place of another.
func putFile(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx, id := r.Context(), r.PathValue("id")
	if !fileID.MatchString(id) {
		facade.Write(w, http.StatusBadRequest, "The file id is not 8 to 64 letters and digits")
		return
	}
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		refuse(w, r, c.Host.Problem(ctx, err))
		return
	}
	defer done()
	content, err := readContents(body, id)
	if err != nil {
		facade.Write(w, http.StatusBadRequest, err.Error())
		return
	}
	if c.Anonymous && md5ID.MatchString(id) && !named(id, content) {
		facade.Write(w, http.StatusForbidden, "put: without an API key, an id that looks like an MD5 has to be that of the contents")
		return
	}
	c.Host.Note(id)
	if err := c.Client.KeepFile(ctx, id, content); err != nil {
		refuse(w, r, c.Host.Problem(ctx, err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// readContents reads what a file is to have. It fails with a facade.BadRequest.
func readContents(body []byte, id string) ([]byte, error) {
	var sent struct {
		Contents *string `json:"file_contents"`
	}
	if facade.CheckText(body) != nil || json.Unmarshal(body, &sent) != nil || sent.Contents == nil {
		return nil, facade.BadRequest("put: missing file_contents parameter in post")
	}
	content, err := base64.StdEncoding.DecodeString(*sent.Contents)
	if err != nil {
		return nil, facade.BadRequest("put: contents of file " + id + " are not valid base-64")
	}
	return content, nil
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

// named reports whether an id is the content's MD5, as CodeRunner makes ids. All who come without a token are one
// tenant, and know the ids of each other's files: none of them is to replace what belongs to such an id.
func named(id string, content []byte) bool {
	sum := md5.Sum(content) //nolint:gosec // it is how clients name files
	return strings.EqualFold(id, hex.EncodeToString(sum[:]))
}
