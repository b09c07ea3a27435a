package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

func TestMain(m *testing.M) {
	gbtest.ManyWait((runtime.GOMAXPROCS(0) + 1) / 2)
	goleak.VerifyTestMain(m)
}

// glovebox is everything a worker needs, for real.
type glovebox struct {
	t         testing.TB
	redis     *gbtest.RedisServer
	s3        *gbtest.S3Server
	records   *record.Store // as the api has them
	objects   *artifacts.Store
	podman    *gbtest.PodmanService
	sandboxes *podman.Sandboxes
	pauseDir  string
	disk      int64 // bytes for paused sessions
	log       gbtest.Buffer
	id        string // of its worker
	stop      func() error
}

func start(tb testing.TB, change func(*worker.Config)) *glovebox {
	tb.Helper()
	return startOn(tb, gbtest.Podman(tb), change)
}

// startOn starts a worker on a Podman service of the test's own.
func startOn(tb testing.TB, podman *gbtest.PodmanService, change func(*worker.Config)) *glovebox {
	tb.Helper()
	g := servers(tb, podman)
	g.work(change)
	return g
}

// servers are all that a worker needs.
func servers(tb testing.TB, podman *gbtest.PodmanService) *glovebox {
	tb.Helper()
	for _, component := range []string{"redis", "s3", "podman"} {
		gbtest.Require(tb, component)
	}
	var err error
	g := &glovebox{t: tb, redis: gbtest.Redis(tb), s3: gbtest.S3(tb), podman: podman, pauseDir: tb.TempDir()}
	ctx := tb.Context()
	if g.records, err = record.Open(ctx, record.Config{URL: g.redis.API()}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { g.records.Close() })
	g.objects, err = artifacts.Open(ctx, artifacts.Config{
		Endpoint: g.s3.Endpoint, Region: g.s3.Region, Bucket: "glovebox", AccessKey: g.s3.AccessKey, SecretKey: g.s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.objects.Close)
	if err := g.objects.EnsureBucket(ctx); err != nil {
		tb.Fatal(err)
	}
	return g
}

// another starts one more worker on the same Redis, bucket and Podman.
func (g *glovebox) another(change func(*worker.Config)) *glovebox {
	g.t.Helper()
	other := &glovebox{t: g.t, redis: g.redis, s3: g.s3, records: g.records, objects: g.objects, podman: g.podman, pauseDir: g.pauseDir, disk: g.disk}
	other.work(change)
	return other
}

// work starts the worker, and waits until it takes jobs.
func (g *glovebox) work(change func(*worker.Config)) {
	g.t.Helper()
	t, ctx := g.t, g.t.Context()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &g.log), nil))
	id := job.NewID("w")
	g.podman.RemoveAfter(t, id)
	own, err := record.Open(ctx, record.Config{URL: g.redis.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	g.sandboxes, err = podman.Open(ctx, podman.Config{Socket: g.podman.Socket, Agent: agentPath(t), Instance: id, Worker: id, Log: log, PauseDir: g.pauseDir, PauseBytes: g.disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.sandboxes.Close)
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	c := worker.Config{
		ID: id, Version: "test", Records: own, Objects: g.objects, Sandboxes: g.sandboxes,
		Runtimes: set, Log: log,
	}
	if change != nil {
		change(&c)
	}
	w, err := worker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	workerCtx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(workerCtx) }()
	stopped := false
	g.id, g.stop = id, func() error { stopped = true; cancel(); return <-ended }
	t.Cleanup(func() {
		if stopped {
			return
		}
		if err := g.stop(); err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	g.says("worker takes jobs")
}

func agentPath(tb testing.TB) string {
	tb.Helper()
	if agent := os.Getenv("GLOVEBOX_AGENT"); agent != "" {
		return agent
	}
	agent, err := gbtest.Tool("glovebox-agent")
	if err != nil {
		tb.Fatal(err)
	}
	return agent
}

// says waits until the worker has logged words.
func (g *glovebox) says(words string) {
	g.t.Helper()
	gbtest.Eventually(g.t, fmt.Sprintf("the worker says %q", words), func() bool { return strings.Contains(g.log.String(), words) })
}

// ample gives a job a minute where it asks for no time: no default ends what a busy machine makes slow.
func ample(spec job.Spec) job.Spec {
	spec.Limits = spec.Limits.Or(job.Limits{WallMS: 60_000, CompileWallMS: 60_000})
	return spec
}

// submit submits a job with ample time.
func (g *glovebox) submit(spec job.Spec) string {
	g.t.Helper()
	return g.submitAsIs(ample(spec))
}

func (g *glovebox) submitAsIs(spec job.Spec) string {
	g.t.Helper()
	id := job.NewID("default")
	if err := g.records.Create(g.t.Context(), id, spec, ""); err != nil {
		g.t.Fatal(err)
	}
	return id
}

// state waits until the job is in one of the wanted states, or has ended.
func (g *glovebox) state(id string, want ...job.Status) record.Record {
	g.t.Helper()
	for began := time.Now(); ; gbtest.Pause(began) {
		j, err := g.records.Get(g.t.Context(), id)
		late := time.Since(began) > gbtest.Patience
		if err != nil && (errors.Is(err, job.ErrNotFound) || late) {
			g.t.Fatal(err)
		} else if err != nil {
			continue // go-redis looks once a second whether a Redis that was away is back
		}
		for _, s := range want {
			if j.State == s {
				return j
			}
		}
		if j.State.Final() {
			return j
		}
		if late {
			g.t.Fatalf("job %s is %s after %s", id, j.State, gbtest.Patience)
		}
	}
}

func (g *glovebox) result(id string) job.Result {
	g.t.Helper()
	j := g.state(id)
	b := j.Result
	if j.ResultRef != "" {
		stored, err := g.objects.GetBytes(g.t.Context(), j.ResultRef, 1<<20)
		if err != nil {
			g.t.Fatal(err)
		}
		if b != nil && string(b) != string(stored) {
			g.t.Errorf("the record's result differs from result.json:\n%s\n%s", b, stored)
		}
		b = stored
	}
	var r job.Result
	if err := json.Unmarshal(b, &r); err != nil {
		g.t.Fatalf("result of %s: %v", id, err)
	}
	return r
}

// sessionWorker has memory for two sessions, and for jobs.
func sessionWorker(c *worker.Config) { c.MemoryMB = 4096 }

func (g *glovebox) openSession(settings job.SessionSettings) string {
	g.t.Helper()
	x, err := g.records.OpenSession(g.t.Context(), "default", settings, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return x.ID
}

func (g *glovebox) execute(session, code string) string {
	g.t.Helper()
	id := job.NewID("default")
	spec := job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: code})
	if err := g.records.AddTurn(g.t.Context(), session, id, spec, record.NewTurn{}); err != nil {
		g.t.Fatal(err)
	}
	return id
}

// begun waits until an execution prints that it has begun. One that is canceled before is not executed, and its result says nothing of its session.
func (g *glovebox) begun(id string) {
	g.t.Helper()
	gbtest.Eventually(g.t, "the execution prints that it has begun", func() bool {
		if _, err := g.records.Watch(g.t.Context(), id); err != nil {
			return false
		}
		events, err := g.records.Events(g.t.Context(), id, "", 100)
		return err == nil && slices.ContainsFunc(events, func(e record.Event) bool {
			return e.Type == record.EventStdout && strings.HasPrefix(string(e.Data), "begun\n")
		})
	})
}

// session waits until the session is in that state.
func (g *glovebox) session(id string, want job.SessionStatus) (x record.Session) {
	g.t.Helper()
	gbtest.Eventually(g.t, "session is "+string(want), func() bool {
		var err error
		x, err = g.records.GetSession(g.t.Context(), id)
		return err == nil && x.State == want
	})
	return x
}
