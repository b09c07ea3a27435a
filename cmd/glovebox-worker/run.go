package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/runtimes"
)

const help = `glovebox-worker takes jobs from the queue and runs each in a sandbox of its own, which is
gVisor's unless its operator says otherwise.

Run it as the user whose rootless Podman it uses, never as root. It is told
everything by its environment (secrets may be in files: NAME_FILE=path), except for

  --require-cgroups        do not start where limits are not hard, as GLOVEBOX_REQUIRE_CGROUPS=true
  --version [--json]       print what this program was built from

  GLOVEBOX_REDIS_URL       redis://glovebox-worker:password@host:6379/0 ("glovebox
                           redis-acl" makes the user), noeviction, AOF on; or with Sentinels
                           redis+sentinel://glovebox-worker:password@s1,s2,s3/0?master=NAME
                           &sentinel_username=glovebox&sentinel_password=PASSWORD
  GLOVEBOX_REDIS_WAIT_REPLICAS
                           how many replicas of Redis have to have the end of a job before
                           it counts, the same for every api and worker  (default: 0)
  GLOVEBOX_S3_ENDPOINT     https://… of an S3-compatible store; empty for AWS
  GLOVEBOX_S3_PATH_STYLE   false: the bucket is a part of the host's name  (default: true where
                           an endpoint is named)
  GLOVEBOX_S3_REGION       such as eu-central-1
  GLOVEBOX_S3_BUCKET       private bucket for what jobs make
  GLOVEBOX_S3_ACCESS_KEY   and GLOVEBOX_S3_SECRET_KEY; empty for the instance's role
  GLOVEBOX_ISOLATION       gvisor, or process: namespaces on the host's kernel, for code that is
                           trusted, without Podman; only jobs that accept it run there, and
                           the api has to allow it         (default: gvisor)
  GLOVEBOX_PODMAN_SOCKET   unix socket of the rootless Podman service
  GLOVEBOX_AGENT           path of the static glovebox-agent binary
  GLOVEBOX_INSTANCE        a word that names this installation on this host
  GLOVEBOX_CONCURRENCY     jobs at once                  (default: number of CPUs)
  GLOVEBOX_LABELS          what this worker is: key=value,…; a job that names such labels
                           runs only where they are      (default: none)
  GLOVEBOX_LABELS_ONLY     keys of these, with commas: take only jobs that name all of them,
                           such as pool                  (default: none, any job)
  GLOVEBOX_WARM            started sandboxes that wait, of each runtime in demand; where
                           jobs come often more, in the memory of as many of each
                           (default: GLOVEBOX_CONCURRENCY; 0: none)
  GLOVEBOX_PRELOAD         false: no interpreters wait in them  (default: true)
  GLOVEBOX_SNAPSHOTS       when these go on from a snapshot, in which the imports are done:
                           auto, where jobs leave them no quiet second to import; always;
                           never                         (default: auto)
  GLOVEBOX_MEMORY_MB       memory of all sandboxes and of large specs as they are read,
                           MiB                           (default: ¾ of the machine)
  GLOVEBOX_CACHE_MB        disk for inputs and answers of graded jobs, which are read from
                           the bucket once then, MiB     (default: 1024; 0: none)
  GLOVEBOX_SESSION_PAUSE_MB
                           disk for sessions that are paused, which hold no memory then, MiB
                           (default: 0: none is paused)
  GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS
                           how long a session executes nothing before it is paused; where its
                           memory is wanted that may be after 5  (default: 60)
  GLOVEBOX_RETENTION_SECONDS
                           how long jobs are kept after their end, at most; the same for
                           every api and worker          (default: 604800, 7 days)
  GLOVEBOX_RESULT_SECONDS  how long results stay in Redis beside the bucket; the same for
                           every api and worker          (default: 3600)
  GLOVEBOX_POLL_MS         how often an idle worker looks for a job, in case it was not
                           told of one (default: 1000)
  GLOVEBOX_GRACE_SECONDS   how long jobs may go on after SIGTERM  (default: 30)
  GLOVEBOX_IMAGES          images that jobs may bring: name@sha256:… …  (default: none)
  GLOVEBOX_PRICES          what jobs cost, in billionths of your currency, the same as the
                           api's                         (default: results have no cost)
  GLOVEBOX_SIGNING_KEY     signs results: openssl rand -base64 32  (default: unsigned)
  GLOVEBOX_SECRETS_KEY     opens the secrets that tenants store: openssl rand -base64 32, the
                           same for every worker; several are good, the first one is what
                           the api seals with            (default: no secrets)
  GLOVEBOX_METRICS_ADDR    host:port, or fd:N, at which Prometheus finds /metrics, for
                           operators only                (default: nowhere)
  OTEL_EXPORTER_OTLP_ENDPOINT
                           http://host:4318 of an OpenTelemetry collector, as the api's
                           (default: nowhere, and no traces are made)
  GLOVEBOX_INSECURE        what to accept though others on the network could read it: redis
                           (no password), s3 (http), with commas (default: nothing)
  GLOVEBOX_LOG             text or json                  (default: text)
  GLOVEBOX_REQUIRE_CGROUPS true: refuse to start where limits are soft  (default: false)

At its start it runs a sandbox to see who enforces limits: the host's kernel, by a
cgroup for each sandbox ("hard"), or only the agent and the worker, who watch ("soft").
The log and every result say which.

While Redis, the bucket or Podman are away it waits for them, at its start too, and says
so. It ends for what only a changed setting mends: a password that is refused, a bucket
that does not exist, another OCI runtime, no image.

SIGTERM drains: running jobs may finish within the grace, the rest go back to the
queue at no cost. SIGUSR1 logs the number of goroutines and the size of the heap.
Exit status: 0 drained, 1 failed, 2 wrong configuration.
`

const requireCgroups = "--require-cgroups"

func run(ctx context.Context, args []string, getenv config.Getenv, stdout, stderr io.Writer) int {
	if asked, asJSON := version.Asked(args); asked {
		if err := version.Read().Write(stdout, "glovebox-worker", asJSON); err != nil {
			fmt.Fprintf(stderr, "glovebox-worker: %v\n", err)
			return 1
		}
		return 0
	}
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Fprint(stdout, help)
		return 0
	case len(args) > 1 || len(args) == 1 && args[0] != requireCgroups:
		fmt.Fprintf(stderr, "glovebox-worker knows no argument %q; see glovebox-worker --help\n", args[len(args)-1])
		return 2
	case os.Getuid() == 0:
		fmt.Fprintln(stderr, "glovebox-worker must not run as root: run it as the user of the rootless Podman service, or with GLOVEBOX_ISOLATION=process as any other user")
		return 2
	}
	c, err := config.ReadWorker(getenv)
	if err != nil {
		fmt.Fprintf(stderr, "glovebox-worker: %v\nsee glovebox-worker --help\n", err)
		return 2
	}
	c.RequireCgroups = c.RequireCgroups || slices.Contains(args, requireCgroups)
	log := config.Logger(stderr, c.Log)
	for _, w := range c.Warnings {
		log.Warn("a setting could be safer", "what", w)
	}
	// Until the drain is over: without a handler, SIGUSR1 would kill.
	statsCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var stats sync.WaitGroup
	stats.Go(func() { logStats(statsCtx, log) })
	defer stats.Wait()
	defer stop()
	if err := work(ctx, c, log); err != nil {
		log.Error("glovebox-worker failed", "error", err)
		if errors.Is(err, config.ErrAddr) {
			return 2
		}
		return 1
	}
	log.Info("glovebox-worker drained")
	return 0
}

// work runs the worker until ctx ends. It waits for what is away, and fails for wrong settings
// only.
func work(ctx context.Context, c config.Worker, log *slog.Logger) error {
	redis.SetLogger(&logging.VoidLogger{}) // the errors that it would log are returned by calls
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	address, err := redisconn.Parse(c.Redis.URL)
	if err != nil {
		return fmt.Errorf("GLOVEBOX_REDIS_URL %w", err)
	}
	id := workerID(address.Options.Username)
	tracer, err := c.Tracing.Open(ctx, "glovebox-worker", id, log)
	if err != nil {
		return err
	}
	defer tracer.Close() //nolint:contextcheck // it sends the last spans after ctx has ended
	m, err := newMetrics(ctx, c, set.Names())
	if err != nil {
		return err
	}
	defer m.serve(ctx, log)()
	err = (&startup{config: c, id: id, set: set, metrics: m, tracer: tracer, log: log}).run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // it was told to end while it waited
	}
	return err
}

// workerID is new for every run: a restarted worker must not be taken for the one
// that died while it ran jobs. It begins with the name of the worker's user in Redis, if that
// user is for one worker only, or else with the host's name.
func workerID(redisUser string) string {
	name := redisacl.WorkerName(redisUser)
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			name = "host"
		}
	}
	return fmt.Sprintf("%s-%s", name, strings.ToLower(rand.Text()[:redisacl.IDRandom]))
}
