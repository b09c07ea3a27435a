package worker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// inputs are the files that the execution is given. Those of the bucket are kept by the worker until it is executed: a session has its
// state to lose, so it waits for a bucket that is away. An error that is an inputError is the execution's.
func (t *turn) inputs(ctx context.Context) (files []sandbox.File, err error) {
	w := t.session.worker
	ctx, cancel := context.WithTimeout(ctx, w.UploadTimeout)
	defer cancel()
	for _, f := range t.input.Files() {
		var file sandbox.File
		err := await.Until(ctx, t.session.log, "the bucket, to read an execution's file", func(ctx context.Context) (err error) {
			file, err = t.file(ctx, f)
			if input := new(inputError); errors.As(err, &input) {
				return errors.Join(await.ErrSettings, err) // no waiting helps
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read input %q: %w", f.Name, err)
		}
		if err := t.hash(ctx, file); err != nil {
			return nil, fmt.Errorf("hash input %q: %w", f.Name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// hash adds the file to what is attested, if anything is.
func (t *turn) hash(ctx context.Context, file sandbox.File) error {
	if t.session.worker.Signer == nil {
		return nil
	}
	if err := t.input.Begin(file.Name, file.Size); err != nil {
		return err
	}
	r, err := file.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(t.input, r)
	return err
}

// file is one of them.
func (t *turn) file(ctx context.Context, f job.File) (sandbox.File, error) {
	file, err := t.session.worker.input(ctx, t.job, f)
	if err != nil || !f.Kept() {
		return file, err
	}
	r, err := file.Open(ctx)
	if err != nil {
		return file, err
	}
	defer r.Close()
	kept := &capture{dir: t.session.worker.SpoolDir}
	_, err = io.Copy(captured{kept}, r)
	if err == nil {
		_, err = kept.all() // all of it is on the disk, which may be full
	}
	if noRoom(err) {
		t.session.log.Warn("an execution is refused: there is no room to spool a file that it is given", "job_id", t.job.ID, "name", f.Name, "bytes", f.Size, "error", err)
		err = &inputError{&job.Error{Code: job.CodeUnavailable, Message: fmt.Sprintf("%q can't be given to the execution: its worker's disk is full", f.Name)}}
	}
	if err != nil {
		return file, errors.Join(err, kept.close()) // it is read anew
	}
	t.files = append(t.files, kept)
	file.Open = func(context.Context) (io.ReadCloser, error) {
		r, err := kept.all()
		return io.NopCloser(r), err
	}
	return file, nil
}
