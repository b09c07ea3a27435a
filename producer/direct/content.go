package direct

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// PutUpload stores content of the tenant's as an upload, for façades, whose clients send it whole. It
// returns the content's SHA-256, in hex, which files of jobs can name. It is kept as any upload is, and the same content
// is stored once. It fails with job.Invalid, and with a *job.Error of code quota_exceeded.
func (c *Client) PutUpload(ctx context.Context, content []byte) (string, error) {
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	if err := c.checkUpload(ctx, sum, int64(len(content))); err != nil {
		return "", err
	}
	held := record.Upload{Tenant: c.tenant, SHA256: sum, Size: int64(len(content))}
	if err := c.records.HoldUpload(ctx, held, false); errors.Is(err, record.ErrUploadGoes) {
		return "", &job.Error{Code: job.CodeUnavailable, Message: err.Error()}
	} else if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	_, err := c.upload(ctx, sum)
	if errors.Is(err, job.ErrNotFound) {
		err = c.putUpload(ctx, sum, content)
	}
	if err != nil {
		return "", fmt.Errorf("store upload: %w", err)
	}
	held.Measured = true
	return sum, c.records.HoldUpload(ctx, held, true)
}

// InputFile returns a file of an execution: with its content if that is small, else as an upload. It fails as PutUpload does.
func (c *Client) InputFile(ctx context.Context, name string, content []byte) (job.File, error) {
	if f, small := producer.InlineFile(name, content); small {
		return f, nil
	}
	sum, err := c.PutUpload(ctx, content)
	return job.File{Name: name, Upload: sum}, err
}

func (c *Client) putUpload(ctx context.Context, sum string, content []byte) error {
	key, err := artifacts.UploadKey(c.tenant, sum)
	if err != nil {
		return err
	}
	_, err = c.objects.PutBytes(ctx, key, "application/octet-stream", content)
	return err
}

// GetUpload returns the content of an upload of the tenant's, at most limit bytes, or job.ErrNotFound. It takes memory for
// that.
func (c *Client) GetUpload(ctx context.Context, sha256 string, limit int64) ([]byte, error) {
	key, err := artifacts.UploadKey(c.tenant, sha256)
	if err != nil {
		return nil, job.ErrNotFound // it is no SHA-256
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	content, err := c.objects.GetHeld(ctx, key, limit, func(size int64) error { return c.memory.Take(ctx, answerWeight*size) })
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, job.ErrNotFound
	}
	return content, err
}
