package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/producer"
)

type uploadOutput struct {
	Status int
	Body   producer.Upload
}

func (a *API) uploadRoutes(h huma.API, d documenter) {
	upload := d.operation("prepare-upload", http.MethodPost, "/v1/uploads", "Upload a file for jobs",
		"Answers where to PUT content that is too large for a job's spec: the bucket takes the content with that SHA-256 and no other, and files[].upload of a job then names it. It is kept for a day, or for as long as jobs are, after it was asked for or submitted with last, and counts as bytes_stored.",
		d.answers(200, "The content is there already", d.schema(producer.Upload{})), d.answers(201, "The content is to be put at url", d.schema(producer.Upload{})),
		d.problems(400, 401, 413, 415, 422, 503))
	upload.DefaultStatus = http.StatusCreated
	upload.MaxBodyBytes = recordBody
	upload.RequestBody = jsonBody()
	huma.Register(h, upload, a.prepareUpload)
	upload.RequestBody.Content["application/json"].Schema = d.schema(producer.UploadRequest{})
}

func (a *API) prepareUpload(ctx context.Context, _ *struct{}) (*uploadOutput, error) {
	body, done, err := readBody[producer.UploadRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	u, err := a.tenantClient(ctx).PrepareUpload(ctx, body.SHA256, body.Size)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &uploadOutput{Status: http.StatusCreated, Body: u}
	if u.Exists {
		out.Status = http.StatusOK
	}
	return out, nil
}
