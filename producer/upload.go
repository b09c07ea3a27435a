package producer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const (
	uploadTries = 3
	uploadsPath = "/v1/uploads"
)

// Uploader takes content that is to be an input of jobs. It is safe for concurrent use.
type Uploader interface {
	// PrepareUpload says where to put content of that SHA-256, in hex, and size, so that
	// jobs can name it as a file (job.File.Upload): [UploadFile] does the rest. It is kept
	// for a day, or for as long as jobs are, after it was prepared or submitted with last.
	// It fails with job.Invalid, and with a *job.Error of code quota_exceeded.
	PrepareUpload(ctx context.Context, sha256 string, size int64) (Upload, error)
}

var _ Uploader = (*Client)(nil)

// UploadRequest is what POST /v1/uploads takes.
type UploadRequest struct {
	SHA256 string `json:"sha256" doc:"SHA-256 of the content, in lower-case hex." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Size   int64  `json:"size" doc:"Bytes of the content." minimum:"1"`
}

// Upload says where content is to be put, to be an input of jobs under its SHA-256.
type Upload struct {
	SHA256 string `json:"sha256" doc:"What files[].upload of a job names."`
	Size   int64  `json:"size"`
	// Exists says that the content is there: nothing has to be put.
	Exists bool `json:"exists" doc:"The content is there already: nothing has to be put."`
	// URL takes the content by PUT, with these Headers, until ExpiresAt, and no other
	// content.
	URL       string            `json:"url,omitempty" doc:"Where to PUT the content, and no other content. Absent if it is there."`
	Headers   map[string]string `json:"headers,omitempty" doc:"Headers that the PUT has to have, beside Content-Length."`
	ExpiresAt *time.Time        `json:"expires_at,omitempty" doc:"Until when the PUT has to begin."`
}

// PrepareUpload is [Uploader.PrepareUpload].
func (c *Client) PrepareUpload(ctx context.Context, sha256 string, size int64) (Upload, error) {
	var u Upload
	err := c.send(ctx, http.MethodPost, uploadsPath, UploadRequest{sha256, size}, &u)
	return u, err
}

// UploadFile stores what r holds, unless it is there, so that jobs can have it as an
// input, and returns it as a file of a job's spec under that name. It reads r twice, from
// its beginning, and holds none of it in memory. The bucket gets three tries.
func UploadFile(ctx context.Context, to Uploader, name string, r io.ReadSeeker) (job.File, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, r)
	if err != nil {
		return job.File{}, fmt.Errorf("read %s: %w", name, err)
	}
	f := job.File{Name: name, Upload: hex.EncodeToString(sum.Sum(nil))}
	u, err := to.PrepareUpload(ctx, f.Upload, size)
	if err != nil || u.Exists {
		return f, err
	}
	client, done := bucketClient(to)
	defer done()
	for try := 1; ; try++ {
		again, err := put(ctx, client, u, r)
		if err == nil {
			return f, nil
		}
		if !again || try == uploadTries || ctx.Err() != nil {
			return job.File{}, fmt.Errorf("upload %s: %w", name, err)
		}
	}
}

// bucketClient is what asks the bucket: with the transport that the caller gave [New], if it
// did. Redirects are not followed. done ends its connections.
func bucketClient(to Uploader) (client *http.Client, done func()) {
	client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c, ok := to.(*Client); ok && c.lent {
		client.Transport = c.http.Transport
		return client, func() {}
	}
	client.Transport = http.DefaultTransport.(*http.Transport).Clone()
	return client, client.CloseIdleConnections
}

// put sends the content once, and says whether it may be worth to try again.
func put(ctx context.Context, client *http.Client, u Upload, r io.ReadSeeker) (again bool, err error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	// NopCloser: a request that fails would close a file, which is to be read again.
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.URL, io.NopCloser(r))
	if err != nil {
		return false, errors.New("the bucket's URL is not valid")
	}
	req.ContentLength = u.Size
	for name, value := range u.Headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		var where *url.Error // its URL holds a signature
		if errors.As(err, &where) {
			err = where.Err
		}
		return true, fmt.Errorf("ask the bucket at %s: %w", req.URL.Host, err)
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return res.StatusCode >= 500, fmt.Errorf("the bucket at %s answered %s", req.URL.Host, res.Status)
	}
	return false, nil
}
