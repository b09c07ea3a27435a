package worker

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// hanging is a bucket that does not answer.
type hanging struct {
	cutOff
	asked chan struct{} // received means that it was
}

func (h *hanging) hang(ctx context.Context) error {
	select {
	case h.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *hanging) Get(ctx context.Context, _ string) (io.ReadCloser, artifacts.Object, error) {
	return nil, artifacts.Object{}, h.hang(ctx)
}

func (h *hanging) Upload(ctx context.Context, _ string, _ io.Reader, _ artifacts.Options) (artifacts.Object, error) {
	return artifacts.Object{}, h.hang(ctx)
}

// TestDrainWithoutBucket: a worker that shuts down does not wait for a bucket to store an execution whose sandbox was lost.
func TestDrainWithoutBucket(t *testing.T) {
	t.Parallel()
	w, objects := sessionWorker(t, 1024), &hanging{asked: make(chan struct{})}
	w.withRecords(t)
	w.Objects, w.UploadTimeout, w.Patience = objects, time.Hour, gbtest.Patience
	h, j := w.taken(t)
	life, end := context.WithCancelCause(h.life)
	h.life = life
	begun, err := h.begin(j)
	if err == nil {
		err = begun.Sink.Stdout(bytes.Repeat([]byte("x"), job.InlineOutput+1))
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		h.ended(sandbox.Outcome{Lost: true, Status: job.OutOfMemory}, nil)
		close(ended)
	}()
	<-objects.asked
	end(errDrained)
	select {
	case <-ended:
	case <-time.After(gbtest.AtOnce):
		t.Fatal("it waits for the bucket")
	}
	if got, err := w.Records.Get(t.Context(), j.ID); err != nil || got.State != job.InternalError {
		t.Errorf("got %s %s, %v, want internal_error", got.State, got.Result, err)
	}
}
