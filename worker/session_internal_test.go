package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// sessionWorker is what of a worker holds sessions, without sandboxes. It has so many MiB.
func sessionWorker(t *testing.T, mb int64) *Worker {
	t.Helper()
	w := &Worker{
		Config:   Config{ID: "w1", MemoryMB: mb, UploadTimeout: gbtest.Patience, SpoolDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewWorker(prometheus.NewRegistry(), nil)},
		memory:   newBudget(mb),
		active:   map[queue.Run]struct{}{},
		draining: make(chan struct{}),
	}
	w.sessions = w.newSessionConsumer(t.Context())
	return w
}

// withRecords gives the worker the records of a Redis.
func (w *Worker) withRecords(t *testing.T) {
	t.Helper()
	records, err := record.Open(t.Context(), record.Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	w.Objects = &cutOff{}
	w.Records, w.cancels = records, records.ListenCancel(t.Context())
	t.Cleanup(func() { w.cancels.Close() })
}

// taken is a session of this worker with an execution that it has just taken.
func (w *Worker) taken(t *testing.T) (*heldSession, record.Job) {
	t.Helper()
	ctx, settings := t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 1000}}
	x, err := w.Records.OpenSession(ctx, "default", settings)
	if err == nil {
		x, err = w.Records.ClaimSession(ctx, x.ID, w.ID)
	}
	if err == nil {
		err = w.Records.AddTurn(ctx, x.ID, job.NewID("default"), settings.Spec(job.SessionExecution{Code: "1"}), record.NewTurn{})
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := w.Records.TakeTurn(ctx, x.ID, w.ID, "", nil, record.Rest{Slot: true})
	if err != nil {
		t.Fatal(err)
	}
	return &heldSession{worker: w, life: context.WithoutCancel(ctx), record: x, asked: true, log: w.Log, limits: settings.Limits, languages: []string{"python"}}, j
}

// TestSessionOutage: a deadline of ours that passes is none of the session, and its execution costs nothing.
func TestSessionOutage(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	h, j := w.taken(t)
	h.turn = &turn{session: h, job: j, close: func() {}}
	h.ended(sandbox.Outcome{}, fmt.Errorf("store the result: %w", context.DeadlineExceeded))
	x, err := w.Records.GetSession(t.Context(), h.record.ID)
	if err != nil || x.EndReason != job.EndFailed {
		t.Errorf("got a session that ended as %q, %v, want %q", x.EndReason, err, job.EndFailed)
	}
	if got, err := w.Records.Get(t.Context(), j.ID); err != nil || got.State != job.InternalError {
		t.Errorf("got %s %s, %v, want internal_error", got.State, got.Result, err)
	}
	h, _ = w.taken(t)
	h.ended(sandbox.Outcome{}, errors.Join(errTTL, context.DeadlineExceeded))
	if x, err = w.Records.GetSession(t.Context(), h.record.ID); err != nil || x.EndReason != job.EndTTL {
		t.Errorf("at the end of its time: got %q, %v", x.EndReason, err)
	}
}

// TestExecutionCanceledAsTaken: what is canceled between the script that takes it and its begin, which nobody listened for, is interrupted at once.
func TestExecutionCanceledAsTaken(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	h, j := w.taken(t)
	if status, err := w.Records.Cancel(t.Context(), j.ID, []byte(`{}`)); err != nil || status != job.Running {
		t.Fatalf("got %s, %v, want it running", status, err)
	}
	begun, err := h.begin(j)
	if errors.Is(err, errCanceled) { // that early
		if !h.refused(err) {
			t.Fatalf("got %v, want it refused", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.turn.close()
	select {
	case <-begun.Interrupt:
	case <-time.After(gbtest.Patience):
		t.Error("nobody interrupts it")
	}
}

// cutOff has objects of which half comes.
type cutOff struct {
	Objects
	reads int
}

func (c *cutOff) Get(context.Context, string) (io.ReadCloser, artifacts.Object, error) {
	c.reads++
	half := strings.NewReader(strings.Repeat("x", 200<<10))
	return io.NopCloser(io.MultiReader(half, failing{})), artifacts.Object{Size: 400 << 10}, nil
}

func (*cutOff) Sweep(context.Context, string, func(string) bool) (artifacts.Swept, error) {
	return artifacts.Swept{}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// TestInputReadAgain: what came of an input that could not be read to its end is kept no longer than that.
func TestInputReadAgain(t *testing.T) {
	t.Parallel()
	w, objects := sessionWorker(t, 1024), &cutOff{}
	w.Objects = objects
	sum := strings.Repeat("a", 64)
	spec := job.Spec{Runtime: "python", Source: "1", Files: []job.File{{Name: "a", Upload: sum, SHA256: sum, Size: 400 << 10}}}
	given := &turn{session: &heldSession{worker: w, log: w.Log}, job: record.Job{ID: job.NewID("default"), Tenant: "default", Spec: &spec}}
	for range 3 {
		if _, err := given.file(t.Context(), spec.Files[0]); err == nil {
			t.Fatal("half of a file was taken for it")
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open { // its files have no names
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, w.SpoolDir) {
			t.Errorf("%s is open after %d reads", to, objects.reads)
		}
	}
	if len(given.files) > 0 || objects.reads != 3 {
		t.Errorf("got %d captures after %d reads, want none after 3", len(given.files), objects.reads)
	}
}
