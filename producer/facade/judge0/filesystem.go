package judge0

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// filesystem is the field that has the files which a program left, as a zip in base64.
	filesystem = "post_execution_filesystem"
	// maxFilesystem is how much of them is answered, in bytes: what an additional_files may have as a zip.
	maxFilesystem = 4 << 20
	// filesystemWeight is how many times its size a file takes: in a zip that grows, in base64, and in the answer.
	filesystemWeight = 6
	// filesystemTime is how long all of them may take to be read.
	filesystemTime = time.Minute
)

// readFiles reads the files that a program left into a zip; nil where it left none. One that there is no room for is left out, and so is
// one that was purged.
func readFiles(ctx context.Context, c *facade.Call, r job.Result) ([]byte, error) {
	if len(r.Artifacts) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, filesystemTime)
	defer cancel()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	left := int64(maxFilesystem)
	for _, a := range r.Artifacts {
		if a.Size > left {
			continue
		}
		if c.Host.Hold(ctx, filesystemWeight*a.Size) != nil {
			continue
		}
		left -= a.Size
		err := addFile(ctx, c, w, r.ID, a)
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			return nil, fmt.Errorf("read %s of job %s: %w", a.Name, r.ID, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

func addFile(ctx context.Context, c *facade.Call, w *zip.Writer, id string, a job.Artifact) error {
	f, err := c.Client.Open(ctx, id, producer.ArtifactPath(a.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	to, err := w.Create(a.Name)
	if err == nil {
		_, err = io.CopyN(to, f, a.Size)
	}
	return err
}
