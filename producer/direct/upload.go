package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// uploadURLLife is how long the URL of an Upload works: one may take that long to begin.
const uploadURLLife = time.Hour

// PrepareUpload is [producer.Uploader.PrepareUpload].
func (c *Client) PrepareUpload(ctx context.Context, sha256 string, size int64) (producer.Upload, error) {
	if err := c.checkUpload(ctx, sha256, size); err != nil {
		return producer.Upload{}, err
	}
	// First it is held, then looked at: what is there then stays.
	held := record.Upload{Tenant: c.tenant, SHA256: sha256, Size: size}
	if err := c.records.HoldUpload(ctx, held, false); errors.Is(err, record.ErrUploadGoes) {
		return producer.Upload{}, &job.Error{Code: job.CodeUnavailable, Message: err.Error()}
	} else if err != nil {
		return producer.Upload{}, err
	}
	u := producer.Upload{SHA256: sha256, Size: size}
	is, err := c.upload(ctx, sha256)
	if err == nil { // it is there: what was said of it before is of no account
		held.Size, held.Measured = is, true
		if err := c.records.HoldUpload(ctx, held, true); err != nil {
			return producer.Upload{}, err
		}
		if is != size {
			return producer.Upload{}, job.Invalid{{
				Field: "size", Value: size, Message: "is not that of the content with this SHA-256", Allowed: fmt.Sprint(is),
			}}
		}
		u.Exists = true
		return u, nil
	}
	if !errors.Is(err, job.ErrNotFound) {
		return producer.Upload{}, err
	}
	key, err := artifacts.UploadKey(c.tenant, sha256)
	if err != nil {
		return producer.Upload{}, err
	}
	put, err := c.objects.PresignPut(ctx, key, sha256, size, uploadURLLife)
	if err != nil {
		return producer.Upload{}, err
	}
	expires := time.Now().Add(uploadURLLife).UTC().Truncate(time.Second)
	u.URL, u.Headers, u.ExpiresAt = put.URL, put.Header, &expires
	return u, nil
}

// checkUpload fails with job.Invalid for what no job could be given.
func (c *Client) checkUpload(ctx context.Context, sha256 string, size int64) error {
	terms, err := c.terms(ctx)
	if err != nil {
		return err
	}
	maximums := terms.Maximums.AtMost(c.maximums)
	var invalid job.Invalid
	if !job.IsSHA256(sha256) {
		invalid = append(invalid, job.FieldError{Field: "sha256", Value: fmt.Sprintf("%.80s", sha256), Message: "is not a SHA-256", Allowed: "64 lower-case hex digits"})
	}
	if most := min(maximums.DiskMB<<20, maximums.MemoryMB<<20, mostInputs); size < 1 || size > most {
		invalid = append(invalid, job.FieldError{
			Field: "size", Value: size, Message: "is out of range", Allowed: fmt.Sprintf("1 to %d, which is what a job can be given at most", most),
		})
	}
	if invalid != nil {
		return invalid
	}
	return nil
}

// upload is the size of an upload that is there, or job.ErrNotFound.
func (c *Client) upload(ctx context.Context, sha256 string) (int64, error) {
	key, err := artifacts.UploadKey(c.tenant, sha256)
	if err != nil {
		return 0, err
	}
	o, err := c.objects.Head(ctx, key)
	if errors.Is(err, artifacts.ErrNotFound) {
		return 0, job.ErrNotFound
	}
	return o.Size, err
}
