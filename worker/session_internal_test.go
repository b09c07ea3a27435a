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
	"github.com/glovebox-run/glovebox/internal/script"
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
func (w *Worker) taken(t *testing.T) (*heldSession, record.Record) {
	t.Helper()
	ctx, settings := t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 1000}}
	x, err := w.Records.OpenSession(ctx, "default", settings, nil)
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
	return &heldSession{
		worker: w, life: context.WithoutCancel(ctx), record: x, asked: true, log: w.Log, limits: settings.Limits, languages: []string{"python"}, clock: newClock(x), release: func() {},
	}, j
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

// execute adds an execution to the session, which is given files.
func (h *heldSession) execute(t *testing.T, files ...job.File) (id string) {
	t.Helper()
	id = job.NewID("default")
	if err := h.worker.Records.AddTurn(t.Context(), h.record.ID, id, h.record.Settings.Spec(job.SessionExecution{Code: "1", Files: files}), record.NewTurn{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestForkedWithoutSlot: other sessions' executions have the slot of a session while it is written to the disk.
func TestForkedWithoutSlot(t *testing.T) {
	t.Parallel()
	w, ctx := sessionWorker(t, 1024), t.Context()
	w.withRecords(t)
	w.sessions.turns = newTurnSlots(1)
	h, j := w.taken(t)
	_, err := w.Records.ClaimForkable(ctx, h.record.ID, w.ID)
	if err == nil {
		_, err = h.begin(j)
	}
	if err == nil {
		err = h.Ended(ctx, sandbox.TurnOutcome{TestOutcome: sandbox.TestOutcome{Status: job.Succeeded}})
	}
	if err == nil {
		_, err = w.Records.OpenFork(ctx, h.record, h.record.Settings, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	turn, ok, err := h.Next(ctx)
	if err != nil || !ok || !turn.Fork {
		t.Fatalf("got %+v, %v, %v, want a fork", turn, ok, err)
	}
	defer h.endForking("the test is over")
	if !w.sessions.turns.try("other") {
		t.Error("it holds the slot")
	}
}

// TestEndLostByRedis: what of an execution's end a Redis that crashed has lost is written again, before anything else of its session is executed.
func TestEndLostByRedis(t *testing.T) {
	t.Parallel()
	for name, stateLost := range map[string]bool{"kept": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ctx := sessionWorker(t, 1024), t.Context()
			w.withRecords(t)
			w.sessions.turns = newTurnSlots(1)
			h, j := w.taken(t)
			redis, written := w.Records.Redis(), map[string]map[string]string{}
			for _, key := range []string{script.Key("default", "session:"+h.record.ID), script.Key("default", "job:"+j.ID)} {
				written[key] = redis.HGetAll(ctx, key).Val()
			}
			if _, err := h.begin(j); err != nil {
				t.Fatal(err)
			}
			if err := h.Ended(ctx, sandbox.TurnOutcome{TestOutcome: sandbox.TestOutcome{Status: job.Succeeded}, StateLost: stateLost}); err != nil {
				t.Fatal(err)
			}
			want, err := w.Records.Get(ctx, j.ID)
			if err != nil || want.State != job.Succeeded {
				t.Fatalf("got %s, %v", want.State, err)
			}
			wake, stopped := make(chan struct{}), make(chan error) // received means that the look before it is over
			h.wake = wake
			looking, stop := context.WithCancel(ctx)
			go func() { _, _, err := h.Next(looking); stopped <- err }()
			wake <- struct{}{}
			stop()
			if err := <-stopped; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			for key, fields := range written {
				if err := errors.Join(redis.Del(ctx, key).Err(), redis.HSet(ctx, key, fields).Err()); err != nil {
					t.Fatal(err)
				}
			}
			next := h.execute(t)
			turn, ok, err := h.Next(ctx)
			if err != nil || !ok || h.turn.job.ID != next {
				t.Fatalf("got %v, %v, want execution %s", ok, err, next)
			}
			defer h.turn.close()
			if got, err := w.Records.Get(ctx, j.ID); err != nil || got.State != want.State || string(got.Result) != string(want.Result) {
				t.Errorf("got %s %s, %v, want %s", got.State, got.Result, err, want.Result)
			}
			if generation := map[bool]int{false: 1, true: 2}[stateLost]; turn.Context.Generation != generation {
				t.Errorf("got generation %d, want %d", turn.Context.Generation, generation)
			}
		})
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
	given := &turn{session: &heldSession{worker: w, log: w.Log}, job: record.Record{ID: job.NewID("default"), Tenant: "default", Spec: &spec}}
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
