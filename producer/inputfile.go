package producer

import (
	"bytes"
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// mostInline is how large a file may be that goes with an execution itself, in bytes.
const mostInline = 16 << 10

// InlineFile returns a file that goes with an execution itself; small is false for one of more than 16 KiB, which is to be an upload.
func InlineFile(name string, content []byte) (f job.File, small bool) {
	switch {
	case len(content) > mostInline:
		return job.File{}, false
	case utf8.Valid(content):
		return job.File{Name: name, Content: string(content)}, true
	}
	return job.File{Name: name, ContentBase64: base64.StdEncoding.EncodeToString(content)}, true
}

// InputFile returns a file of an execution: with its content if that is small, else as an upload. It fails as [UploadFile] does.
func (c *Client) InputFile(ctx context.Context, name string, content []byte) (job.File, error) {
	if f, small := InlineFile(name, content); small {
		return f, nil
	}
	return UploadFile(ctx, c, name, bytes.NewReader(content))
}
