package producer

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Open is [Files.Open]. The API redirects to the bucket, which sends the bytes.
func (c *Client) Open(ctx context.Context, id, path string) (*Download, error) {
	name, ok := strings.CutPrefix(path, artifactDir)
	if !ok && path != Stdout && path != Stderr || !isJobID(id) || job.CheckName(name) != "" {
		return nil, job.ErrNotFound // "..", say, would mean another URL
	}
	res, err := c.do(ctx, http.MethodGet, FilePath(id, path)) //nolint:bodyclose // the caller closes the Download
	if err != nil {
		return nil, err
	}
	if !ok {
		name = id + "." + path + ".txt"
	}
	return &Download{res.Body, name, res.ContentLength, res.Header.Get("Content-Type")}, nil
}

// Files reads what jobs made. It is safe for concurrent use.
type Files interface {
	// Open reads what a job made: Stdout, Stderr or ArtifactPath(name). It fails with
	// job.ErrNotFound for what isn't there (yet). The caller closes the Download.
	Open(ctx context.Context, id, path string) (*Download, error)
}

var _ Files = (*Client)(nil)

// What there is to [Files.Open] besides artifacts.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// ArtifactPath is what [Files.Open] calls the artifact of that name.
func ArtifactPath(name string) string { return artifactDir + name }

const artifactDir = "artifacts/"

// Download is a file that a job made.
type Download struct {
	io.ReadCloser
	// Name as the job wrote it, with slashes.
	Name string
	// Size in bytes, or -1 where it is not known.
	Size      int64
	MediaType string
}
