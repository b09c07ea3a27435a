package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// inputs returns the files of the job's directory and the name of the one that is run. Files in
// the bucket go into the sandbox while they are read, and are hashed on their way. So all of
// files[] go in the order in which they are hashed.
func (w *Worker) inputs(ctx context.Context, j record.Record, spec job.Spec, runtimeFile string, input *attest.Input) (files []sandbox.File, entrypoint string, err error) {
	entrypoint = entrypointOf(spec, runtimeFile)
	if err := spec.CheckSource(entrypoint); err != nil { // the api didn't know this worker's runtimes
		return nil, "", &inputError{&job.Error{Code: job.CodeInputConflict, Message: err.Error()}}
	}
	if spec.Source != "" {
		files = append(files, sandbox.File{Name: entrypoint, Content: []byte(spec.Source)})
	}
	for _, f := range input.Files() {
		file, err := w.input(ctx, j, f)
		if err != nil {
			return nil, "", fmt.Errorf("read input %q: %w", f.Name, err)
		}
		open, hashed := file.Open, false
		file.Open = func(ctx context.Context) (io.ReadCloser, error) {
			r, err := open(ctx)
			if err != nil || hashed { // a second sandbox
				return r, err
			}
			hashed = true
			if err := input.Begin(file.Name, file.Size); err != nil {
				return nil, errors.Join(err, r.Close())
			}
			return teeReadCloser{io.TeeReader(r, input), r}, nil
		}
		files = append(files, file)
	}
	return files, entrypoint, nil
}

// entrypointOf is the name of the file that is run; runtimeFile is what the runtime calls a program that has none.
func entrypointOf(spec job.Spec, runtimeFile string) string {
	switch {
	case spec.Entrypoint != "":
		return spec.Entrypoint
	case spec.Source == "" && len(spec.Files) == 1:
		return spec.Files[0].Name
	}
	return runtimeFile
}

// teeReadCloser reads from one, and closes the other.
type teeReadCloser struct {
	io.Reader
	io.Closer
}

// input returns one file, which the spec holds or the bucket.
func (w *Worker) input(ctx context.Context, j record.Record, f job.File) (sandbox.File, error) {
	if !f.Kept() {
		content, err := f.Bytes()
		return sandbox.File{Name: f.Name, Size: int64(len(content)), Content: content, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}}, err
	}
	key, err := w.storedKey(ctx, j.Tenant, f)
	if err != nil {
		return sandbox.File{}, err
	}
	return sandbox.File{Name: f.Name, Size: f.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
		body, o, err := w.Objects.Get(ctx, key)
		switch {
		case errors.Is(err, artifacts.ErrNotFound):
			return nil, goneError(f)
		case err != nil:
			return nil, err
		case o.Size != f.Size:
			return nil, errors.Join(changedError(f), body.Close())
		}
		return &verifiedReader{body, sha256.New(), f}, nil
	}}, nil
}

// storedKey returns the key of a file in the bucket. The api has checked whose it is; this
// worker doesn't rely on that.
func (w *Worker) storedKey(ctx context.Context, tenant string, f job.File) (string, error) {
	if f.Upload != "" {
		return artifacts.UploadKey(tenant, f.Upload)
	}
	id, name, _ := strings.Cut(f.Artifact, "/")
	if of, ok := job.TenantOf(id); !ok || of != tenant {
		return "", goneError(f)
	}
	source, err := w.Records.Get(ctx, id)
	if errors.Is(err, job.ErrNotFound) || err == nil && !source.State.Final() {
		return "", goneError(f)
	}
	if err != nil {
		return "", err
	}
	keys, err := artifacts.JobKeys(tenant, id)
	return keys.Artifact(int64(source.Epoch), name), err
}

// verifiedReader fails at the end if the content is not the one that was submitted.
type verifiedReader struct {
	io.ReadCloser
	sum  hash.Hash
	file job.File
}

// Size is that of the object in the bucket.
func (c *verifiedReader) Size() int64 { return c.file.Size }

func (c *verifiedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.file.SHA256 {
		return n, changedError(c.file)
	}
	return n, err
}

// inputError is the job's failure, not Glovebox's: it can't be given what it was submitted with.
type inputError struct{ reason *job.Error }

func (e *inputError) Error() string { return e.reason.Error() }

func goneError(f job.File) error {
	return &inputError{&job.Error{
		Code:    job.CodeInputGone,
		Message: fmt.Sprintf("%q is %s, which is gone: it was purged or expired before this job started", f.Name, describeSource(f)),
	}}
}

func changedError(f job.File) error {
	return &inputError{&job.Error{
		Code:    job.CodeInputChanged,
		Message: fmt.Sprintf("%q is %s, which does not have the size and SHA-256 that it should have", f.Name, describeSource(f)),
	}}
}

// describeSource says in words where a file is kept.
func describeSource(f job.File) string {
	if f.Upload != "" {
		return "upload " + f.Upload
	}
	return fmt.Sprintf("artifact %q", f.Artifact)
}
