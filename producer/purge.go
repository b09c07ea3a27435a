package producer

import (
	"context"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
)

// Purge is [Jobs.Purge].
func (h *HTTP) Purge(ctx context.Context, id string) error {
	if !isJobID(id) {
		return job.ErrNotFound // "..", say, would mean another URL
	}
	res, err := h.do(ctx, http.MethodDelete, jobPath(id)+"?purge=true", 0, nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
