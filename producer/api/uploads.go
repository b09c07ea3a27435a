package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/producer"
)

// uploadInput's body is what decode reads.
type uploadInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

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
	upload.SkipValidateBody = true // decode does, and PrepareUpload
	upload.MaxBodyBytes = a.bodyLimit
	upload.BodyReadTimeout = bodyTime
	upload.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	schema := d.schema(producer.UploadRequest{})
	huma.Register(h, upload, a.prepareUpload)
	upload.RequestBody.Content["application/json"].Schema = schema
}

func (a *API) prepareUpload(ctx context.Context, in *uploadInput) (*uploadOutput, error) {
	body, err := decode[producer.UploadRequest](in.ContentType, in.RawBody)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
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
