package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
)

// turnSink is where what an execution makes goes. A job would be tried again where the bucket is away; a session has
// its state to lose, so a file of its executions is kept by the worker until it is stored.
type turnSink struct {
	*output
	dir      string        // for what memory is not for
	patience time.Duration // with the bucket
	log      *slog.Logger
}

// Artifact reads the whole file before it is stored.
func (s turnSink) Artifact(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := s.admit(name); err != nil {
		return err
	}
	file := capture{dir: s.dir}
	defer file.close() // it is in no directory any more
	if _, err := io.Copy(captured{&file}, io.LimitReader(r, size+1)); err != nil {
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
