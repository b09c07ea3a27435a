package direct

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Reply is what a hook answers with the result of its job.
type Reply struct {
	Status      int
	Headers     map[string]string
	ContentType string
	// Download says that no browser may show it, and Name what it is called there.
	Download bool
	Name     string
	Body     []byte
}

// Reply returns what a job that has succeeded wants its hook to answer: what it printed, as contentType, or
// what its response.json says. It takes memory for that. It fails with job.Invalid for what can't be sent.
func (c *Client) Reply(ctx context.Context, result job.Result, contentType string) (Reply, error) {
	said := job.HookResponse{Status: http.StatusOK}
	for _, a := range result.Artifacts {
		if a.Name != job.ResponseFile {
			continue
		}
		text, err := c.content(ctx, result.ID, producer.ArtifactPath(a.Name), job.MaxResponseFile)
		if err != nil {
			return Reply{}, err
		}
		if said, err = job.ParseHookResponse(text); err != nil {
			return Reply{}, err
		}
	}
	if own, ok := said.Headers["Content-Type"]; ok {
		contentType = own
	}
	canonical, download, ok := job.AnswerType(contentType)
	if !ok { // the hook's own was checked as it was set, by an api that may have allowed more
		return Reply{}, job.Invalid{{Field: "content_type", Value: job.Clip(contentType, 100), Message: "is no type that a hook answers with", Allowed: job.AllowedAnswers()}}
	}
	reply := Reply{Status: said.Status, Headers: said.Headers, ContentType: canonical, Download: download, Name: result.ID}
	var err error
	switch {
	case said.Body != nil:
		reply.Body = []byte(*said.Body)
	case said.Artifact != "":
		reply.Name = said.Artifact
		reply.Body, err = c.content(ctx, result.ID, producer.ArtifactPath(said.Artifact), job.MaxHookAnswer)
	case result.StdoutURL == "":
		reply.Body = []byte(result.Stdout)
	default:
		reply.Body, err = c.content(ctx, result.ID, producer.Stdout, job.MaxHookAnswer)
	}
	return reply, err
}

// content returns a file of a job, at most limit bytes, and takes memory for it.
func (c *Client) content(ctx context.Context, id, path string, limit int64) ([]byte, error) {
	f, err := c.Locate(ctx, id, path)
	if errors.Is(err, job.ErrNotFound) {
		return nil, job.Invalid{{Field: "artifact", Value: job.Clip(path, 300), Message: "is no file that the job left", Allowed: "the name of an artifact"}}
	}
	if err != nil || f.Key == "" {
		return []byte(f.Text), err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	b, err := c.objects.GetHeld(ctx, f.Key, limit, func(size int64) error { return c.memory.Take(ctx, size) })
	if errors.Is(err, artifacts.ErrTooLarge) {
		return nil, job.Invalid{{Field: path, Message: "is too large for an answer", Allowed: fmt.Sprintf("up to %d bytes", limit)}}
	}
	return b, err
}
