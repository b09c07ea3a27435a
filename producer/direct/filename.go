package direct

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
)

// emptyFile is what a name of nothing stands for: there is no upload of that.
const emptyFile = "-"

// KeepFile stores content as an upload of the tenant's that FindFile finds by that name, in the place of
// what it found before. It is kept as long as an upload; beyond 4,096 names, those go that nobody has
// asked for in the longest time. It fails with job.Invalid, and with a *job.Error of code quota_exceeded.
func (c *Client) KeepFile(ctx context.Context, name string, content []byte) error {
	sum := emptyFile
	if len(content) > 0 {
		var err error
		if sum, err = c.PutUpload(ctx, content); err != nil {
			return err
		}
	}
	return c.records.NameFile(ctx, c.tenant, name, sum)
}

// FindFile returns, as a file of a job's spec without its name, what KeepFile stored under a name, or
// job.ErrNotFound.
func (c *Client) FindFile(ctx context.Context, name string) (job.File, error) {
	sum, err := c.records.FileNamed(ctx, c.tenant, name)
	switch {
	case err != nil:
		return job.File{}, err
	case sum == "":
		return job.File{}, job.ErrNotFound
	case sum == emptyFile:
		return job.File{}, nil
	}
	if _, err := c.upload(ctx, sum); err != nil {
		return job.File{}, err
	}
	return job.File{Upload: sum}, nil
}
