package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/internal/testcache"
)

// openTestCache returns the cache of inputs and answers, or nil: jobs can do without.
func (w *Worker) openTestCache() *testcache.Cache {
	if w.CacheMB <= 0 {
		return nil
	}
	c, err := testcache.Open(testcache.Config{
		Dir: w.CacheDir, MaxBytes: w.CacheMB << 20, MaxObject: job.MaxTestBytes, Bucket: w.Objects,
		Count: func(r testcache.Result) { w.Metrics.TestRead(string(r)) }, Holds: w.Metrics.TestCache, Log: w.Log,
	})
	if err != nil {
		w.Log.Warn("inputs and answers of graded jobs can't be kept, and are read from the bucket each time", "dir", w.CacheDir, "error", err)
		return nil
	}
	return c
}

func (w *Worker) closeTestCache() {
	if err := w.tests.Close(); err != nil {
		w.Log.Warn("the cache of test data could not be removed; the next worker does", "dir", w.CacheDir, "error", err)
	}
}

// openTestFile opens an input or an answer of a graded job, in the spec, in the cache or in the bucket.
func (w *Worker) openTestFile(ctx context.Context, tenant string, f job.File) (sizedReader, error) {
	if !f.Kept() {
		content, err := f.Bytes()
		return inlineReader{bytes.NewReader(content)}, err
	}
	key, err := w.storedKey(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	cached, err := w.tests.Open(ctx, key, f.SHA256)
	if err == nil {
		return cached, nil
	} else if !errors.Is(err, testcache.ErrUncached) {
		return nil, testFileError(f, err)
	}
	body, o, err := w.Objects.Get(ctx, key)
	switch {
	case err != nil:
		return nil, testFileError(f, err)
	case o.Size > job.MaxTestBytes:
		return nil, errors.Join(changedError(f), body.Close())
	}
	f.Size = o.Size
	return &verifiedReader{body, sha256.New(), f}, nil
}

// sizedReader knows how much there is to read.
type sizedReader interface {
	io.ReadCloser
	Size() int64
}

type inlineReader struct{ *bytes.Reader }

func (inlineReader) Close() error { return nil }

// testFileError is the job's failure if the bucket has no such object, and else err.
func testFileError(f job.File, err error) error {
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		return goneError(f)
	case errors.Is(err, testcache.ErrChanged):
		return changedError(f)
	}
	return err
}
