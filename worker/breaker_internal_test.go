package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestOpenSince: a job met a pause when the two overlap, whichever began first.
func TestOpenSince(t *testing.T) {
	t.Parallel()
	w := &Worker{Config: Config{Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewWorker(prometheus.NewRegistry(), nil)}, consumer: &consumer{forGood: true}, sessions: &sessionConsumer{}}
	why := errors.New("podman is away")
	before := time.Now()
	if got := w.breaker.openSince(before); got != nil {
		t.Errorf("before any pause: got %v", got)
	}
	w.pause(why)
	within := time.Now()
	for name, began := range map[string]time.Time{"before": before, "within": within} {
		if got := w.breaker.openSince(began); !errors.Is(got, why) {
			t.Errorf("in the pause, a job started %s it: got %v", name, got)
		}
	}
	if err := w.resume(); err != nil {
		t.Fatal(err)
	}
	for name, began := range map[string]time.Time{"before": before, "within": within} {
		if got := w.breaker.openSince(began); !errors.Is(got, why) {
			t.Errorf("after the pause, a job started %s it: got %v", name, got)
		}
	}
	if got := w.breaker.openSince(time.Now()); got != nil {
		t.Errorf("a job started after the pause: got %v", got)
	}
}

// pausedWorker is a worker that an outage has paused. Each probe calls probed, and succeeds.
func pausedWorker(t *testing.T, probed func()) *Worker {
	t.Helper()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	w.Images, w.Sandboxes, w.Objects = []string{"image"}, &wellSandboxes{probed: probed}, wellObjects{}
	w.consumer = &consumer{
		server: func() *queue.Server {
			return w.Records.Queue.Server(queue.ServerConfig(1, queue.JobsWith(nil), time.Second, w.Log), nil)
		},
		handle: func(context.Context, *asynq.Task) error { return nil },
	}
	t.Cleanup(w.consumer.close)
	w.pause(errors.New("podman is away"))
	return w
}

type wellSandboxes struct {
	Sandboxes
	probed func()
}

func (*wellSandboxes) Ping(context.Context) error { return nil }

func (s *wellSandboxes) Run(ctx context.Context, _ sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	s.probed()
	return sandbox.Outcome{}, ctx.Err()
}

type wellObjects struct{ Objects }

func (wellObjects) Ping(context.Context) error     { return nil }
func (wellObjects) TryWrite(context.Context) error { return nil }

// drainByOperator tells the worker that its operator drains it, and returns once it has obeyed.
func (w *Worker) drainByOperator(t *testing.T) {
	t.Helper()
	if err := fleet.Drain(t.Context(), w.Records.Redis().(*redis.Client), w.ID, nil); err != nil {
		t.Error(err)
	}
	if err := w.obey(t.Context()); err != nil {
		t.Error(err)
	}
}

// staysDrained fails the test unless the worker is drained and takes nothing.
func (w *Worker) staysDrained(t *testing.T) {
	t.Helper()
	if got := w.paused(); !errors.Is(got, errDrainedByOperator) {
		t.Errorf("the pause's reason is %v, want the drain", got)
	}
	if w.consumer.takes() || w.sessions.wanted {
		t.Errorf("a drained worker takes jobs: %v, sessions: %v", w.consumer.takes(), w.sessions.wanted)
	}
}

func (c *consumer) takes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != nil
}

// TestDrainedDuringProbe: a worker that is drained while a probe finds its outage over takes nothing until it is resumed.
func TestDrainedDuringProbe(t *testing.T) {
	t.Parallel()
	var w *Worker
	drain := sync.OnceFunc(func() { w.drainByOperator(t) }) // the probe has seen by then that nobody has
	w = pausedWorker(t, func() { drain() })
	w.tryResume(t.Context())
	w.staysDrained(t)

	if err := fleet.Resume(t.Context(), w.Records.Redis().(*redis.Client), w.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.obey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.tryResume(t.Context()); w.paused() != nil || !w.consumer.takes() || !w.sessions.wanted {
		t.Errorf("resumed: it is paused by %v, takes jobs: %v, sessions: %v", w.paused(), w.consumer.takes(), w.sessions.wanted)
	}
}

// TestDrainedAsItGoesOn: a worker that is drained between the end of its pause and the start of its consumers takes nothing.
func TestDrainedAsItGoesOn(t *testing.T) {
	t.Parallel()
	w := pausedWorker(t, func() {})
	goesOn, start, drained := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.Log = slog.New(atMessage{slog.DiscardHandler, "worker goes on", func() { close(goesOn); <-start }})
	resumed := make(chan error)
	go func() { resumed <- w.resume() }()
	<-goesOn
	go func() { defer close(drained); w.drainByOperator(t) }()
	select {
	case <-drained:
	case <-time.After(200 * time.Millisecond): // it waits until the consumers run, and stops them
	}
	close(start)
	if err := <-resumed; err != nil {
		t.Error(err)
	}
	<-drained
	w.staysDrained(t)
}

// TestGivenUpProbe: a job that is canceled while its worker makes a probe pauses nobody, and what was given up answers for no other job.
func TestGivenUpProbe(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	ctx, cancel := context.WithCancel(t.Context())
	w.Images, w.Sandboxes, w.Objects = []string{"image"}, &wellSandboxes{probed: cancel}, wellObjects{}
	if err := w.outage(ctx, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was given up", err)
	}
	if b := &w.breaker; w.paused() != nil || b.result != nil || !b.probed.IsZero() {
		t.Errorf("it is paused by %v, and a probe of %s has answered %v", w.paused(), b.probed, b.result)
	}
	if err := w.outage(t.Context(), time.Now()); err != nil || w.breaker.probed.IsZero() {
		t.Errorf("another job: got %v, want that the worker is well", err)
	}
}

// TestGivenUpAsAnotherProbes: a job that is canceled doesn't wait for the probe of another, which goes on.
func TestGivenUpAsAnotherProbes(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.Images, w.Sandboxes, w.Objects = []string{"image"}, &wellSandboxes{probed: func() { close(begun); <-goOn }}, wellObjects{}
	other, mine := make(chan error, 1), make(chan error, 1)
	go func() { other <- w.outage(t.Context(), time.Now()) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() { mine <- w.outage(ctx, time.Now()) }()
	cancel()
	select {
	case err := <-mine:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was given up", err)
		}
	case <-time.After(gbtest.AtOnce):
		t.Error("it waits for the other's probe")
	}
	close(goOn)
	if err := <-other; err != nil {
		t.Errorf("the other: got %v, want that the worker is well", err)
	}
}

// atMessage is a log that calls do at each line whose message begins so.
type atMessage struct {
	slog.Handler
	message string
	do      func()
}

func (atMessage) Enabled(context.Context, slog.Level) bool { return true }

func (m atMessage) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, m.message) {
		m.do()
	}
	return nil
}
