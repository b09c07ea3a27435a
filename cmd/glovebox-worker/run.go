package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const help = `glovebox-worker takes jobs from the queue and runs each in a gVisor sandbox of its own.

Run it as the user whose rootless Podman it uses, never as root. It is told
everything by its environment (secrets may be in files: NAME_FILE=path), but for

  --require-cgroups        do not start where limits are not hard, as GLOVEBOX_REQUIRE_CGROUPS=true

  GLOVEBOX_REDIS_URL       redis://:password@host:6379/0, noeviction, AOF on
  GLOVEBOX_S3_ENDPOINT     https://… of an S3-compatible store; empty for AWS
  GLOVEBOX_S3_REGION       such as eu-central-1
  GLOVEBOX_S3_BUCKET       private bucket for what jobs make
  GLOVEBOX_S3_ACCESS_KEY   and GLOVEBOX_S3_SECRET_KEY; empty for the instance's role
  GLOVEBOX_PODMAN_SOCKET   unix socket of the rootless Podman service
  GLOVEBOX_AGENT           path of the static glovebox-agent binary
  GLOVEBOX_INSTANCE        a word that names this installation on this host
  GLOVEBOX_CONCURRENCY     jobs at once                  (default: number of CPUs)
  GLOVEBOX_WARM            started sandboxes that wait, of each runtime in demand
                           (default: GLOVEBOX_CONCURRENCY; 0: none)
  GLOVEBOX_PRELOAD         false: no interpreters wait in them  (default: true)
  GLOVEBOX_MEMORY_MB       memory of all sandboxes, MiB  (default: ¾ of the machine)
  GLOVEBOX_RETENTION_SECONDS
                           how long jobs are kept after their end, at most; the same for
                           every api and worker          (default: 604800, 7 days)
  GLOVEBOX_RESULT_SECONDS  how long results stay in Redis beside the bucket (default: 3600)
  GLOVEBOX_POLL_MS         after what time an idle worker looks for a job that it was
                           not told of (default: 1000)
  GLOVEBOX_GRACE_SECONDS   how long jobs may go on after SIGTERM  (default: 30)
  GLOVEBOX_IMAGES          images that jobs may bring: name@sha256:… …  (default: none)
  GLOVEBOX_SIGNING_KEY     signs results: openssl rand -base64 32  (default: unsigned)
  GLOVEBOX_SECRETS_KEY     opens the secrets that tenants store: openssl rand -base64 32, the
                           same for every worker; several are good, the first one is what
                           the api seals with            (default: no secrets)
  GLOVEBOX_METRICS_ADDR    host:port, or fd:N, at which Prometheus finds /metrics, for
                           operators only                (default: nowhere)
  GLOVEBOX_LOG             text or json                  (default: text)
  GLOVEBOX_REQUIRE_CGROUPS true: refuse to start where limits are soft  (default: false)

At its start it runs a sandbox to see who enforces limits: the host's kernel, by a
cgroup for each sandbox ("hard"), or only the agent and the worker, who watch ("soft").
The log and every result say which.

SIGTERM drains: running jobs may finish within the grace, the rest go back to the
queue at no cost. SIGUSR1 logs the number of goroutines and the size of the heap.
Exit status: 0 drained, 1 failed, 2 wrong configuration.
`

const requireCgroups = "--require-cgroups"

func run(ctx context.Context, args []string, getenv config.Getenv, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		fmt.Fprint(stdout, help)
		return 0
	case len(args) == 1 && (args[0] == "--version" || args[0] == "version"):
		fmt.Fprintln(stdout, "glovebox-worker", version())
		return 0
	case len(args) > 1 || len(args) == 1 && args[0] != requireCgroups:
		fmt.Fprintf(stderr, "glovebox-worker knows no argument %q; see glovebox-worker --help\n", args[len(args)-1])
		return 2
	case os.Getuid() == 0:
		fmt.Fprintln(stderr, "glovebox-worker must not run as root: run it as the user of the rootless Podman service")
		return 2
	}
	c, err := config.ReadWorker(getenv)
	if err != nil {
		fmt.Fprintf(stderr, "glovebox-worker: %v\nsee glovebox-worker --help\n", err)
		return 2
	}
	c.RequireCgroups = c.RequireCgroups || slices.Contains(args, requireCgroups)
	log := config.Logger(stderr, c.Log)
	// Until the drain is over, too: a second signal of that kind must never kill.
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var asked sync.WaitGroup
	asked.Go(func() { figures(asking, log) })
	defer asked.Wait()
	defer stop()
	if err := work(ctx, c, log); err != nil {
		log.Error("glovebox-worker failed", "error", err)
		return 1
	}
	log.Info("glovebox-worker drained")
	return 0
}

func work(ctx context.Context, c config.Worker, log *slog.Logger) error {
	redis.SetLogger(&logging.VoidLogger{}) // what it would say, our own calls return
	id := workerID()
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	m, err := newMetrics(ctx, c, set.Names())
	if err != nil {
		return err
	}
	defer m.close()
	c.Redis.Log, c.Redis.Observer, c.S3.Observe = log, m.records, m.s3.Observe
	records, err := record.Open(ctx, c.Redis)
	if err != nil {
		return err
	}
	defer records.Close()
	records.Redis().AddHook(m.redis)
	objects, err := artifacts.Open(ctx, c.S3)
	if err != nil {
		return err
	}
	defer objects.Close()
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // systemd.exec(5): /tmp is the worker's own there
	sandboxes, err := sandbox.Open(ctx, sandbox.Config{
		Socket: c.PodmanSocket, Agent: c.Agent, Instance: c.Instance, Worker: id, Log: log,
		Dir: dir,
	})
	if err != nil {
		return err
	}
	defer sandboxes.Close() //nolint:contextcheck // ctx has ended by then
	if err := selfTest(ctx, sandboxes, append(set.Images(), c.Images...), c.RequireCgroups, log); err != nil {
		return err
	}
	warm, reserved := warmth(ctx, c, set, sandboxes, log)
	if c.Warm > 0 {
		sandboxes.KeepWarm(ctx, warm)
	}
	w, err := worker.New(worker.Config{
		ID: id, Version: version(), Records: records, Objects: objects, Sandboxes: sandboxes, Runtimes: set, Images: c.Images, Signer: c.Signer, Secrets: c.Secrets,
		Concurrency: c.Concurrency, MemoryMB: c.MemoryMB - reserved, Poll: c.Poll, Grace: c.Grace, Metrics: m.worker, Log: log,
	})
	if err != nil {
		return err
	}
	return m.beside(ctx, log, w.Run)
}

// warmth is what sandboxes are kept started: of every runtime that is there, in a quarter
// of the memory, which is reserved for them, and for what jobs hold that were preloaded.
func warmth(ctx context.Context, c config.Worker, set runtimes.Set, sandboxes *sandbox.Podman, log *slog.Logger) (w sandbox.Warm, reserved int64) {
	w = sandbox.Warm{Images: map[string]job.Limits{}, Preloads: map[string]sandbox.Preload{}, MaxMemoryMB: c.MemoryMB, Most: c.Warm}
	if c.Warm == 0 {
		return w, 0
	}
	var largest, all int64
	for _, r := range set.List() {
		if _, err := sandboxes.Image(ctx, r.Image()); err == nil { // else publish says so
			w.Images[r.Image()] = job.Limits{}.Filled(r.Limits)
			if r.Preload != nil && c.Preload {
				_, command := r.Command("", nil)
				w.Preloads[r.Image()] = sandbox.Preload{Command: command, Env: r.Env, MemoryMB: r.Preload.MemoryMB}
				largest, all = max(largest, r.Preload.MemoryMB), all+r.Preload.MemoryMB
			}
		}
	}
	idle, quarter := int64(len(w.Images))*sandbox.IdleMB, c.MemoryMB/4
	running := int64(c.Concurrency) * largest
	if len(w.Preloads) > 0 && running+idle+all > quarter {
		log.Warn("nothing is preloaded: a quarter of GLOVEBOX_MEMORY_MB has no room for it", "want_mb", 4*(running+idle+all))
		clear(w.Preloads)
		running, all = 0, 0
	}
	w.MemoryMB = min(quarter-running, int64(c.Warm)*(idle+all))
	return w, w.MemoryMB + running
}

// selfTest runs a sandbox of the first image that is there.
func selfTest(ctx context.Context, sandboxes *sandbox.Podman, images []string, require bool, log *slog.Logger) error {
	image := ""
	for _, i := range images {
		if _, err := sandboxes.Image(ctx, i); err == nil {
			image = i
			break
		} else if !errors.Is(err, sandbox.ErrNoImage) && !errors.Is(err, sandbox.ErrImageRefused) {
			return err
		}
	}
	if image == "" {
		return errors.New("no runtime's image, and none of GLOVEBOX_IMAGES, is in Podman's store, so no job could run: build them with `glovebox runtimes build`")
	}
	found, err := sandboxes.SelfTest(ctx, image)
	switch {
	case err != nil:
		return err
	case found.Hard:
		log.Info("limits are hard: the kernel enforces what the self-test's sandbox was given, and what that was changed to")
	case require:
		return fmt.Errorf("limits are soft, and %s forbids that: %s", requireCgroups, found.Reason)
	default:
		log.Warn("limits are soft: the agent and the worker watch each sandbox", "reason", found.Reason)
	}
	return nil
}

// workerID is new for every run: a restarted worker must not be taken for the one
// that died with jobs in its hands.
func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%s", host, strings.ToLower(rand.Text()[:10]))
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
