package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// saved is where download puts an artifact.
func saved(dir string, f job.Artifact) string { return filepath.Join(dir, filepath.FromSlash(f.Name)) }

// download writes what the job made to dir.
func (a *app) download(ctx context.Context, files producer.Files, r job.Result, dir string) (err error) {
	if len(r.Artifacts) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	// Whatever a name says, and whatever links lie in dir: a Root leads nowhere else.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	meter, done := a.meter(r)
	for _, f := range r.Artifacts {
		if err := fetch(ctx, files, r.ID, f, root, meter); err != nil {
			done()
			return fmt.Errorf("download %q: %w", f.Name, err)
		}
	}
	done()
	return nil
}

// meter returns what shows progress on a reader: a bar where somebody looks.
func (a *app) meter(r job.Result) (meter func(io.Reader) io.Reader, done func()) {
	if !isTerminal(a.stderr) {
		return func(r io.Reader) io.Reader { return r }, func() {}
	}
	var total int64
	for _, f := range r.Artifacts {
		total += f.Size
	}
	progress := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	bar := progress.AddBar(
		total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name("  downloading ")),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f")),
	)
	return func(r io.Reader) io.Reader { return bar.ProxyReader(r) }, func() { bar.Abort(true); progress.Wait() }
}

// fetch downloads one file. It gets its name only when it is whole.
func fetch(ctx context.Context, files producer.Files, id string, f job.Artifact, root *os.Root, meter func(io.Reader) io.Reader) (err error) {
	if problem := job.CheckName(f.Name); problem != "" {
		return fmt.Errorf("its name %s", problem)
	}
	body, err := files.Open(ctx, id, producer.ArtifactPath(f.Name))
	if err != nil {
		return err
	}
	defer body.Close()
	dir := path.Dir(f.Name)
	if err := root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	part := path.Join(dir, ".glovebox-"+rand.Text()[:10]+".part")
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := root.Remove(part); err != nil && !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), meter(io.LimitReader(body, f.Size+1)))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("what arrived is not what the result lists (%d of %d bytes, or another SHA-256)", n, f.Size)
	}
	return root.Rename(part, f.Name)
}
