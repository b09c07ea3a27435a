package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/internal/testcache"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Sandboxes runs untrusted programs. An Outcome is what became of the program, an error means
// that Glovebox failed. When ctx ends, the sandbox is destroyed at once and the error is ctx's
// cause.
type Sandboxes interface {
	Run(ctx context.Context, p sandbox.Program, sink sandbox.Sink) (sandbox.Outcome, error)
	Image(ctx context.Context, name string) (digest string, err error)
	Reap(ctx context.Context, alive func(worker string) bool) (int, error)
	// WarmOf counts the idle sandboxes of an image.
	WarmOf(image string) int
	// PreloadedOf counts those of them in which an interpreter is preloaded.
	PreloadedOf(image string) int
	// Ping fails if Podman is away.
	Ping(ctx context.Context) error
}

// Objects stores what jobs make.
type Objects interface {
	Upload(ctx context.Context, key string, r io.Reader, o artifacts.Options) (artifacts.Object, error)
	PutBytes(ctx context.Context, key, mediaType string, data []byte) (artifacts.Object, error)
	Get(ctx context.Context, key string) (io.ReadCloser, artifacts.Object, error)
	Head(ctx context.Context, key string) (artifacts.Object, error)
	GetBytes(ctx context.Context, key string, limit int64) ([]byte, error)
	Sweep(ctx context.Context, prefix string, keep func(key string) bool) (artifacts.Swept, error)
	// Ping fails if the bucket is away, TryWrite if it takes no object.
	Ping(ctx context.Context) error
	TryWrite(ctx context.Context) error
}

// Config is what a Worker works with.
type Config struct {
	// ID names this run of the worker; no two runs may have the same.
	ID        string
	Version   string
	Records   *record.Store
	Objects   Objects
	Sandboxes Sandboxes
	Runtimes  runtimes.Set
	// Isolation is what Sandboxes isolate by. A job that accepts no less than more never runs here. Defaults to gVisor.
	Isolation job.Isolation
	// Images are those that jobs may bring, each pinned by its digest. Defaults to none.
	Images []string
	// Tracer makes spans of jobs. Defaults to none.
	Tracer *tracing.Tracer
	// Signer attests results. Defaults to nil: then they carry no attestation.
	Signer *attest.Signer
	// Secrets open the secrets that jobs name. Defaults to nil: then such jobs fail.
	Secrets *secrets.Keys
	// OnRuntimes is called with the images of runtimes that are in Podman's store, each time that the worker publishes what it offers, and never twice at once. Defaults to nil.
	OnRuntimes func(images []string)
	// Labels are what this worker is. Defaults to none.
	Labels job.Labels
	// Only are keys of Labels: a job whose placement doesn't name all of them never runs here. Defaults to none.
	Only []string
	// Concurrency is how many jobs run at once. Defaults to 2.
	Concurrency int
	// MemoryMB is what all sandboxes together may use. Defaults to Concurrency × 512.
	MemoryMB int64
	// Poll is how often an idle worker polls, in case a notification was lost. Defaults to
	// 1 s.
	Poll time.Duration
	// Grace is how long running jobs may go on after a shutdown has begun; then they
	// are handed back at no cost of attempts. Defaults to 20 s.
	Grace time.Duration
	// Patience is how long, after its grace, a worker that shuts down goes on trying to end
	// its jobs' records while Redis is away. Before that it tries for ever. Defaults to 30 s.
	Patience time.Duration
	// ImageTimeout is how long Podman may take to say what a job's image is, which takes
	// longer on a busy disk. Defaults to 1 min, as a sandbox's start.
	ImageTimeout time.Duration
	// UploadTimeout is how long storing a job's files may take. Defaults to 15 min.
	UploadTimeout time.Duration
	// SpoolDir holds output too long for memory, in files without a name. Defaults to
	// os.TempDir(), which may be memory.
	SpoolDir string
	// CacheMB bounds what is kept of inputs and answers of graded jobs on the disk, MiB. Defaults to 0:
	// each is read from the bucket each time.
	CacheMB int64
	// CacheDir is where a directory for that is made. Defaults to os.TempDir(), which may be memory.
	CacheDir string
	// PauseAfter is how long a session executes nothing before it is paused; where its memory is wanted, that may be after 5 s. Sandboxes have to
	// have room for paused sessions. Defaults to 0: none is paused.
	PauseAfter time.Duration
	// Metrics are counted and measured. Defaults to some that nobody reads.
	Metrics *metrics.Worker
	Log     *slog.Logger
}

// Worker runs jobs until its context ends.
type Worker struct {
	Config
	memory     *budget
	slots      chan struct{} // one for each job at once
	cancels    *record.Listener
	turns      *record.Listener
	imagesCame chan struct{} // to Podman's store, as somebody says
	consumer   *consumer
	sessions   *sessionConsumer
	breaker    breaker
	drained    atomic.Bool      // by the operator
	disobeying await.Rarely     // that it can't be read; only for obey
	unasked    await.Rarely     // likewise; only for keepAsked
	unpooled   await.Rarely     // likewise; only for followPools
	offer      *fleet.Offer     // the names of what this worker can run
	tests      *testcache.Cache // inputs and answers of graded jobs; nil if none are kept
	compiled   compiledCheckers

	mu         sync.Mutex
	names      []string               // of runtimes and images that it offers
	pools      []string               // placements that it serves
	sessionsOf []string               // runtimes whose sessions it holds
	active     map[queue.Run]struct{} // what this worker runs
	wanted     map[string]time.Time   // names that others lack, and when they last handed a job over
	stopping   bool                   // no job may begin any more
	draining   chan struct{}          // closed when that is so
	busy       sync.WaitGroup
	publishers sync.WaitGroup // event publishers: a call may outlive its job by a second

	following  sync.Mutex // of followPools
	publishing sync.Mutex
	missing    map[string]string // allowed images that can't be run, and why; only for publish
	unbuilt    []string          // runtimes without an image, as last logged; only for publish

	absent map[string]time.Time // other workers that had no key in the last reap, and since when; only for reap
}

// Causes that end a run from outside.
var (
	errCanceled = errors.New("the job was cancelled")
	errDrained  = errors.New("the worker is shutting down")
	errDeadline = errors.New("the job's deadline has passed")
	errLost     = errors.New("the job is another worker's by now")
	errPaused   = errors.New("the worker is paused")
)

// New checks the configuration.
func New(c Config) (*Worker, error) {
	if c.ID == "" || c.Records == nil || c.Objects == nil || c.Sandboxes == nil || c.Log == nil {
		return nil, errors.New("new worker: ID, Records, Objects, Sandboxes and Log are needed")
	}
	if c.Isolation = c.Isolation.Or(); c.Isolation != job.GVisor && len(c.Images) > 0 {
		return nil, fmt.Errorf("new worker: a worker that isolates by %s runs no images", c.Isolation)
	}
	for _, key := range c.Only {
		if _, has := c.Labels[key]; !has {
			return nil, fmt.Errorf("new worker: it is kept for jobs that name the label %q, which it hasn't", key)
		}
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 2
	}
	if c.MemoryMB <= 0 {
		c.MemoryMB = int64(c.Concurrency) * 512
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 20 * time.Second
	}
	if c.Patience <= 0 {
		c.Patience = 30 * time.Second
	}
	if c.ImageTimeout <= 0 {
		c.ImageTimeout = time.Minute
	}
	if c.UploadTimeout <= 0 {
		c.UploadTimeout = 15 * time.Minute
	}
	if c.SpoolDir == "" {
		c.SpoolDir = os.TempDir()
	}
	if c.CacheDir == "" {
		c.CacheDir = os.TempDir()
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewWorker(prometheus.NewRegistry(), nil)
	}
	c.Metrics.Offers(c.Concurrency, c.MemoryMB<<20)
	for _, r := range c.Runtimes.List() {
		if warm, ok := c.Sandboxes.(askable); ok {
			c.Metrics.WarmWanted(r.Name, func() int { return warm.WantedOf(r.Image()) })
		}
		c.Metrics.Warm(r.Name, func() int { return c.Sandboxes.WarmOf(r.Image()) }, func() int { return c.Sandboxes.PreloadedOf(r.Image()) })
	}
	pools, _ := servedPools(c.Labels, c.Only, nil)
	return &Worker{
		Config: c, memory: newBudget(c.MemoryMB), slots: make(chan struct{}, c.Concurrency),
		draining: make(chan struct{}), active: map[queue.Run]struct{}{}, pools: pools, wanted: map[string]time.Time{}, missing: map[string]string{}, imagesCame: make(chan struct{}, 1),
	}, nil
}

// Run takes jobs until ctx ends, then drains: running jobs may finish within the
// grace, the rest are handed back; sessions end once nothing of them runs. It returns nil when nothing was lost. While Redis, the
// bucket or Podman are away, be it from the start, it waits for them.
func (w *Worker) Run(ctx context.Context) error {
	// life is the context of everything that outlives ctx, until the drain is over.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)

	w.tests = w.openTestCache()
	defer w.closeTestCache() // no job runs by then

	w.consumer = &consumer{
		server: func() *queue.Server {
			return w.Records.Queue.Server(queue.ServerConfig(w.Concurrency, w.queues(), w.Poll, w.Log), w.slots)
		},
		handle: func(_ context.Context, t *asynq.Task) error { return w.handle(life, t) },
	}
	w.sessions = w.newSessionConsumer(life)
	w.offer = w.Records.Fleet.Offer(ctx, w.serveWanted)
	defer w.offer.Close()
	if err := await.Until(ctx, w.Log, "Redis and Podman, to say what this worker offers", w.announce); err != nil {
		return unlessEnded(ctx, err)
	}
	defer w.publishers.Wait()
	w.cancels = w.Records.ListenCancel(life)
	defer w.cancels.Close()
	w.turns = w.Records.ListenTurns(life, w.ID)
	defer w.turns.Close()
	if w.Signer == nil {
		w.Log.Warn("results carry no attestation: GLOVEBOX_SIGNING_KEY is not set")
	}
	if w.checkHealth(ctx); w.paused() == nil {
		w.Log.Info("worker takes jobs", "worker", w.ID, "concurrency", w.Concurrency, "memory_mb", w.MemoryMB)
		w.breaker.switching.Lock() // a job that fails at once pauses the worker behind its start
		err := w.takeJobs()
		w.Metrics.Paused(false)
		w.breaker.switching.Unlock()
		if err != nil {
			return err
		}
	}
	// Beats go on until the last job is handed back: else the reaper would be quicker.
	beating, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	loops := w.startLoops(beating, ctx)
	defer loops.Wait()
	defer stopLoops()

	<-ctx.Done()
	w.consumer.stopForGood() // take no more
	w.sessions.stopForGood()
	if err := w.offer.Close(); err != nil {
		w.Log.Warn("worker may be handed jobs that it does not take any more", "worker", w.ID, "error", err)
	}
	w.drain(end)
	w.sessions.close()
	w.consumer.close() // no handler runs any more, so asynq has nothing to requeue
	stopLoops()
	loops.Wait() // a beat after Leave would undo it
	return w.Records.Fleet.Leave(context.WithoutCancel(ctx), w.ID)
}

// takeJobs takes jobs and sessions from now on. breaker.switching is held.
func (w *Worker) takeJobs() error { return errors.Join(w.consumer.start(), w.sessions.start()) }

// announce says that this worker lives, and what it offers.
func (w *Worker) announce(ctx context.Context) error {
	if err := w.beat(ctx); err != nil {
		return err
	}
	return w.publish(ctx)
}

// unlessEnded returns err, or nil if ctx has ended: a worker that was told to end has not failed.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // as it says
	}
	return err
}

// drain lets running jobs finish within the grace, then ends the worker's life: jobs that
// still run are handed back.
func (w *Worker) drain(end context.CancelCauseFunc) {
	w.mu.Lock()
	w.stopping = true
	close(w.draining)
	w.mu.Unlock()
	done := make(chan struct{})
	go func() { w.busy.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(w.Grace):
		w.Log.Info("grace is over, running jobs are handed back", "worker", w.ID)
	}
	end(errDrained)
	<-done
}
