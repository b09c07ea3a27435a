package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
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
	for deadline := time.Now().Add(gbtest.Patience); !strings.Contains(g.log.String(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("the worker did not say %q within %s", words, gbtest.Patience)
		}
	}
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
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		j, err := g.records.Get(g.t.Context(), id)
		if err != nil && (errors.Is(err, job.ErrNotFound) || time.Now().After(deadline)) {
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
		if time.Now().After(deadline) {
			g.t.Fatalf("job %s is %s after 90 s", id, j.State)
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

func TestJobs(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for _, c := range []struct {
		name string
		spec job.Spec
		want func(job.Result) string
	}{
		{
			"hello",
			job.Spec{Runtime: "python", Source: "print('hello')", Metadata: map[string]string{"k": "v"}},
			func(r job.Result) string {
				return expect(r.Status == job.Succeeded && *r.ExitCode == 0 && r.Stdout == "hello\n" && r.Stderr == "" &&
					r.Runtime.Name == "python" && r.Runtime.ImageDigest != "" && r.Attempt == 1 && r.Metadata["k"] == "v" &&
					r.Usage.WallMS > 0 && r.Timing.StartupMS > 0 && r.Timing.FinishedAt != nil)
			},
		},
		{
			"an alias, arguments, environment, standard input and files",
			job.Spec{
				Runtime: "py", Entrypoint: "app/run.py", Args: []string{"a b", "--c"}, Env: map[string]string{"GREETING": "hi"}, Stdin: "line\n",
				Files: []job.File{{Name: "app/run.py", Content: "import sys,os\nprint(sys.argv[1:], os.environ['GREETING'], input(), open('data.txt').read())"}, {Name: "data.txt", ContentBase64: "ZGF0YQ=="}},
			},
			func(r job.Result) string { return expect(r.Stdout == "['a b', '--c'] hi line data\n") },
		},
		{
			"exit code",
			job.Spec{Runtime: "bash", Source: "echo oops >&2; exit 3"},
			func(r job.Result) string {
				return expect(r.Status == job.Failed && *r.ExitCode == 3 && r.Stderr == "oops\n" && r.Error == nil)
			},
		},
		{
			"signal",
			job.Spec{Runtime: "bash", Source: "kill -SEGV $$"},
			func(r job.Result) string {
				return expect(r.Status == job.Failed && r.Signal == "SIGSEGV" && *r.ExitCode == 139)
			},
		},
		{
			"time-out",
			job.Spec{Runtime: "bash", Source: "echo begun; sleep 60", Limits: job.Limits{WallMS: 20_000}},
			func(r job.Result) string {
				return expect(r.Status == job.TimedOut && *r.ExitCode == 124 && r.Stdout == "begun\n" && r.Stderr == "Execution timed out\n")
			},
		},
		{
			"too much output",
			job.Spec{Runtime: "bash", Source: "yes", Limits: job.Limits{OutputKB: 100}},
			func(r job.Result) string {
				return expect(r.Status == job.OutputLimitExceeded && len(r.Stdout) == job.InlineOutput && r.StdoutURL == "stdout")
			},
		},
		{
			"output that is no text",
			job.Spec{Runtime: "bash", Source: `printf 'a\377b'`},
			func(r job.Result) string { return expect(r.Stdout == "a\uFFFDb" && r.StdoutURL == "stdout") },
		},
		{
			"a chart and a file",
			job.Spec{Runtime: "python", Source: "import matplotlib.pyplot as plt\nplt.plot([1,2])\nplt.show()\nopen('out/x.csv','w').write('a,b') if __import__('os').makedirs('out') is None else 0", Limits: job.Limits{WallMS: 60_000, MemoryMB: 512}},
			func(r job.Result) string {
				return expect(r.Status == job.Succeeded && len(r.Artifacts) == 2 &&
					r.Artifacts[0].Name == "chart-1.png" && r.Artifacts[0].Kind == job.KindChart && r.Artifacts[0].MediaType == "image/png" &&
					strings.Contains(string(r.Artifacts[0].Chart), `"series":[{"type":"line","label":"","x":[0,1],"y":[1,2]}]`) && r.Artifacts[1].Chart == nil &&
					r.Artifacts[1].Name == "out/x.csv" && r.Artifacts[1].Kind == job.KindFile && r.Artifacts[1].Size == 3)
			},
		},
		{
			"node",
			job.Spec{Runtime: "node", Source: "console.log(require('lodash').sum([1,2]))"},
			func(r job.Result) string { return expect(r.Stdout == "3\n") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(c.spec))
			if problem := c.want(r); problem != "" {
				b, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("%s: %.4000s", problem, b)
			}
		})
	}
}

func expect(ok bool) string {
	if ok {
		return ""
	}
	return "not the result that was expected"
}

func TestOutputBeyondTheResultIsWhole(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "seq 1 100000"})
	r := g.result(id)
	if r.Status != job.Succeeded || r.StdoutURL != "stdout" {
		t.Fatalf("got %s, stdout_url %q", r.Status, r.StdoutURL)
	}
	body, _, err := g.objects.Get(t.Context(), fmt.Sprintf("tenants/default/jobs/%s/1/stdout", id))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	whole, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(whole), "\n100000\n") || !strings.HasPrefix(string(whole), r.Stdout) {
		t.Errorf("got %d bytes, %v", len(whole), err)
	}
}

// What a tenant is said to keep is what is in its part of the bucket.
func TestBytesStored(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "seq 1 100000; seq 1 10 > a.csv; mkdir b; head -c 300000 /dev/zero > b/c"}))
	if r.Status != job.Succeeded || r.StdoutURL == "" || len(r.Artifacts) != 2 {
		t.Fatalf("got %s, stdout_url %q, artifacts %+v", r.Status, r.StdoutURL, r.Artifacts)
	}
	want := int64(0)
	err := filepath.WalkDir(filepath.Join(g.s3.Dir, "glovebox/tenants/default"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			want += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.records.Redis().Get(t.Context(), "gb:{default}:stored").Int64(); err != nil || got != want {
		t.Errorf("got %d bytes, %v; the bucket has %d", got, err, want)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	soon(t, func() time.Duration {
		id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
		g.state(id, job.Running)
		time.Sleep(300 * time.Millisecond) // somewhere in its start or run
		began := time.Now()
		if _, err := g.records.Cancel(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		r := g.result(id)
		if r.Status != job.Canceled || r.ExitCode != nil {
			t.Errorf("got %+v", r)
		}
		return time.Since(began)
	})
}

// soon fails the test if each of three cancels takes as long as if the worker was not told: it looks after 10 s.
func soon(t *testing.T, cancel func() time.Duration) {
	t.Helper()
	const most = 8 * time.Second
	if took := gbtest.Best(3, most, cancel); took > most {
		t.Errorf("a cancel took %s", took)
	}
}

// A job that runs at its deadline ends as one that waits then: canceled, and with the reason.
func TestDeadline(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	deadline := time.Now().Add(15 * time.Second)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}, Deadline: deadline})
	g.state(id, job.Running)
	r := g.result(id)
	if r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded || r.ExitCode != nil || r.Timing.Deadline == nil {
		t.Errorf("got %+v, error %+v", r, r.Error)
	}
	if late := r.Timing.FinishedAt.Sub(deadline); late < -time.Millisecond || late > gbtest.AtOnce {
		t.Errorf("it ended %s after its deadline", late)
	}
	// One that is taken too late doesn't run.
	id = g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}, Deadline: time.Now()})
	if r := g.result(id); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded {
		t.Errorf("begun after its deadline: got %+v, error %+v", r, r.Error)
	}
}

func TestDrainHandsBackAtNoCost(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Grace = 25 * time.Second }) // the quick one may be slow to start
	quick := g.submit(job.Spec{Runtime: "bash", Source: "sleep 0.5; echo done"})
	slow := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
	g.state(quick, job.Running)
	g.state(slow, job.Running)
	time.Sleep(400 * time.Millisecond)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if r := g.result(quick); r.Stdout != "done\n" {
		t.Errorf("a job that could finish within the grace: got %+v", r)
	}
	j, err := g.records.Get(t.Context(), slow)
	if err != nil || j.State != job.Queued || j.Attempts != 0 || j.Epoch != 2 {
		t.Errorf("got state %s attempts %d epoch %d %v, want queued 0 2", j.State, j.Attempts, j.Epoch, err)
	}
}

func TestStoreComesBack(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.s3.Kill()
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello > file"})
	g.state(id, job.Running)
	time.Sleep(2 * time.Second)
	g.s3.Restart()
	r := g.result(id)
	if r.Status != job.Succeeded || len(r.Artifacts) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestRedisRestartsWhileAJobRuns(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 1; echo survived"})
	g.state(id, job.Running)
	g.redis.Kill()
	time.Sleep(2 * time.Second)
	g.redis.Restart()
	if r := g.result(id); r.Stdout != "survived\n" || r.Attempt != 1 {
		t.Errorf("got %+v", r)
	}
}
