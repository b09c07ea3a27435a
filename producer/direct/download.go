package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const textPlain = "text/plain; charset=utf-8"

// File is where a file of a job is: in the bucket under Key, or, where Key is "", in
// the record as Text.
type File struct {
	Key, Text string
	// Name and MediaType are for the client that downloads it.
	Name, MediaType string
}

// Open is [producer.Files.Open].
func (c *Client) Open(ctx context.Context, id, path string) (*producer.Download, error) {
	f, err := c.Locate(ctx, id, path)
	if err != nil {
		return nil, err
	}
	if f.Key == "" {
		return &producer.Download{ReadCloser: io.NopCloser(strings.NewReader(f.Text)), Name: f.Name, Size: int64(len(f.Text)), MediaType: f.MediaType}, nil
	}
	body, o, err := c.objects.Get(ctx, f.Key)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, fmt.Errorf("%s: %w", path, job.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return &producer.Download{ReadCloser: body, Name: f.Name, Size: o.Size, MediaType: f.MediaType}, nil
}

// Locate finds a file of a job, or job.ErrNotFound. A path is never more than a name to
// compare with: it becomes part of a key only where the result lists it.
func (c *Client) Locate(ctx context.Context, id, path string) (File, error) {
	if !c.owns(id) {
		return File{}, job.ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return File{}, err
	}
	if !r.State.Final() {
		return File{}, fmt.Errorf("%s of a job that is %s: %w", path, r.State, job.ErrNotFound)
	}
	result, err := c.result(ctx, r)
	if err != nil {
		return File{}, fmt.Errorf("read result of job %s: %w", id, err)
	}
	return locate(r, result, path)
}

func locate(r record.Record, result job.Result, path string) (File, error) {
	keys, err := artifacts.JobKeys(r.Tenant, r.ID)
	if err != nil {
		return File{}, err
	}
	epoch := int64(r.Epoch)
	output := func(url, text, key string) (File, error) {
		f := File{Name: r.ID + "." + path + ".txt", MediaType: textPlain}
		if url == "" {
			f.Text = text
		} else {
			f.Key = key
		}
		return f, nil
	}
	switch path {
	case producer.Stdout:
		return output(result.StdoutURL, result.Stdout, keys.Stdout(epoch))
	case producer.Stderr:
		return output(result.StderrURL, result.Stderr, keys.Stderr(epoch))
	}
	name, ok := strings.CutPrefix(path, producer.ArtifactPath(""))
	for _, a := range result.Artifacts {
		if ok && a.Name == name {
			return File{Key: keys.Artifact(epoch, name), Name: name, MediaType: a.MediaType}, nil
		}
	}
	return File{}, fmt.Errorf("%.300q of job %s: %w", path, r.ID, job.ErrNotFound)
}

// Presign returns a URL of the bucket that reads f for a while, for an f with a Key.
func (c *Client) Presign(ctx context.Context, f File, life time.Duration) (string, error) {
	return c.objects.Presign(ctx, f.Key, f.Name, f.MediaType, life)
}
