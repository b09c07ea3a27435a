package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/job"
)

// turnSink is where what an execution makes goes. A job would be tried again where the bucket is away; a session has
// its state to lose, so a file of its executions is kept by the worker until it is stored.
type turnSink struct {
	*output
	dir      string        // for what memory is not for
	patience time.Duration // with the bucket
	log      *slog.Logger
}

// Artifact reads the whole file before it is stored. One that the worker's disk has no room for is left out, as one that is too large is.
func (s turnSink) Artifact(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := s.admit(name); err != nil {
		return err
	}
	file := capture{dir: s.dir}
	defer file.close() // it is in no directory any more
	_, err := io.Copy(captured{&file}, io.LimitReader(r, size+1))
	if err == nil {
		_, err = file.all() // all of it is on the disk, which may be full
	}
	if noRoom(err) {
		s.log.Warn("a file of an execution was left out: there is no room to spool it", "name", name, "bytes", size, "error", err)
		s.skipped = append(s.skipped, job.Skipped{Name: name, Reason: "can't be kept: its worker's disk is full"})
		return nil
	}
	if err != nil {
		return fmt.Errorf("read artifact %q: %w", name, err)
	}
	if file.size > size {
		return fmt.Errorf("read artifact %q: it has more than the %d bytes that were announced", name, size)
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return await.Until(ctx, s.log, "the bucket, to store an execution's file", func(ctx context.Context) error {
		body, err := file.all()
		if err != nil {
			return err
		}
		return s.put(ctx, name, size, body)
	})
}

// captured writes to a capture, as it is.
type captured struct{ to *capture }

func (c captured) Write(p []byte) (int, error) { return len(p), c.to.append(p) }
