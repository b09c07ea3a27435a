package config

import (
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// Worker is what glovebox-worker is told.
type Worker struct {
	Redis record.Config
	S3    artifacts.Config
	// Isolation is what programs are isolated by. Defaults to gVisor.
	Isolation job.Isolation
	// PodmanSocket is the path of the rootless Podman service's socket; only gVisor needs it, and Instance.
	PodmanSocket string
	// Agent is the path of the static glovebox-agent, which sandboxes mount.
	Agent string
	// Instance tells this installation's containers from those of others on the host.
	Instance string
	// Labels are what this worker is, and Only keys of them: a job that doesn't name these never runs here. Default to none.
	Labels job.Labels
	Only   []string
	// Concurrency is the most jobs at once. Defaults to the number of CPUs.
	Concurrency int
	// Warm is how many started sandboxes to keep of each runtime in demand. Defaults to
	// Concurrency.
	Warm int
	// Preload has interpreters wait in them, where their runtime knows how. Defaults to true.
	Preload bool
	// Snapshots is when sandboxes in which interpreters wait go on from a snapshot: "auto", where there is no
	// quiet second for them to preload by themselves, the default; "always", or "never".
	Snapshots string
	// MemoryMB is what the sandboxes may use together. Defaults to three quarters of
	// the machine's memory.
	MemoryMB int64
	// CacheMB is how much of the disk inputs and answers of graded jobs may take. Defaults to 1024.
	CacheMB int64
	// PauseMB is how much of the disk paused sessions may take. Defaults to 0: none is paused.
	PauseMB int64
	// PauseAfter is how long a session executes nothing before it is paused. Defaults to 60 s.
	PauseAfter time.Duration
	// Poll is how often an idle worker looks for a task, in case it was not told of one. Defaults to 1 s.
	Poll time.Duration
	// Grace is how long running jobs may take to end after SIGTERM. Defaults to 30 s.
	Grace time.Duration
	// Images are those that jobs may bring, each pinned by its digest.
	Images []string
	// MetricsAddr is where GET /metrics is answered, host:port or fd:N; "" for nowhere.
	MetricsAddr string
	// Signer attests results; nil where there is no key.
	Signer *attest.Signer
	// Secrets open what tenants store; nil where there is no key.
	Secrets *secrets.Keys
	// RequireCgroups keeps the worker from starting where the host's kernel doesn't bound
	// its sandboxes.
	RequireCgroups bool
	// Prices are what jobs cost; nil for nothing.
	Prices *job.Prices
	// Tracing is where spans go.
	Tracing Tracing
	// Log is "text" or "json".
	Log string
	// Warnings are about settings that work, and could be safer.
	Warnings []string
}

// ReadWorker reads a worker's environment. Its error lists every fault.
func ReadWorker(getenv Getenv) (Worker, error) {
	r := NewReader(getenv)
	concurrency := r.Int("GLOVEBOX_CONCURRENCY", runtime.NumCPU(), 1, 4096)
	w := Worker{
		Redis:       r.Redis(),
		S3:          r.S3(),
		Isolation:   r.isolation("GLOVEBOX_ISOLATION"),
		Agent:       r.Required("GLOVEBOX_AGENT", "the path of the glovebox-agent binary"),
		Concurrency: concurrency,
		Warm:        r.Int("GLOVEBOX_WARM", concurrency, 0, 4096),
		Preload:     r.Bool("GLOVEBOX_PRELOAD", true),
		Snapshots:   r.Choice("GLOVEBOX_SNAPSHOTS", "auto", "always", "never"),
		MemoryMB:    int64(r.Int("GLOVEBOX_MEMORY_MB", machineMB()*3/4, 64, 1<<30)),
		CacheMB:     int64(r.Int("GLOVEBOX_CACHE_MB", 1024, 0, 1<<30)),
		Poll:        r.Count("GLOVEBOX_POLL_MS", time.Millisecond, 1000, 1, 10_000),
		Grace:       r.Count("GLOVEBOX_GRACE_SECONDS", time.Second, 30, 1, 86_400),
		Images:      r.images("GLOVEBOX_IMAGES"),
		MetricsAddr: r.String("GLOVEBOX_METRICS_ADDR", ""),
		Prices:      r.prices("GLOVEBOX_PRICES"),
		Tracing:     r.tracing(),
		Signer:      r.signer("GLOVEBOX_SIGNING_KEY"),
		Secrets:     r.secretsKeys("GLOVEBOX_SECRETS_KEY"),
		Log:         r.Choice("GLOVEBOX_LOG", "text", "json"),

		RequireCgroups: r.Bool("GLOVEBOX_REQUIRE_CGROUPS", false),
	}
	w.PauseMB, w.PauseAfter = r.Pause()
	w.Labels, w.Only = r.Labels()
	if w.Isolation == job.GVisor {
		w.PodmanSocket = strings.TrimPrefix(r.Required("GLOVEBOX_PODMAN_SOCKET", "the path of the Podman service's socket"), "unix://")
		w.Instance = r.Required("GLOVEBOX_INSTANCE", "a word of letters and digits that names this installation")
	} else {
		if len(w.Images) > 0 {
			r.Fault("GLOVEBOX_IMAGES", "is set: want none with GLOVEBOX_ISOLATION=%s, which has no images", w.Isolation)
		}
		if w.RequireCgroups {
			r.Fault("GLOVEBOX_REQUIRE_CGROUPS", "is true: limits are soft with GLOVEBOX_ISOLATION=%s", w.Isolation)
		}
	}
	w.Warnings = r.insecure(w.Redis.URL, w.S3, "")
	return w, r.Err()
}

// Pause is how much of a worker's disk paused sessions may take, MiB, and how long a session executes nothing before it is paused.
func (r *Reader) Pause() (mb int64, after time.Duration) {
	return int64(r.Int("GLOVEBOX_SESSION_PAUSE_MB", 0, 0, 1<<30)), r.Count("GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS", time.Second, 60, 1, 5400)
}

// Labels are those of a worker, and the keys of those that a job has to name to run there.
func (r *Reader) Labels() (labels job.Labels, only []string) {
	const name, onlyName = "GLOVEBOX_LABELS", "GLOVEBOX_LABELS_ONLY"
	labels, err := job.ParseLabels(r.getenv(name), job.MaxLabels)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	only, onlyErr := job.ParseLabelKeys(r.getenv(onlyName))
	switch {
	case onlyErr != nil:
		r.Fault(onlyName, "can't be read: %v", onlyErr)
	case len(only) > job.MaxPlacement:
		r.Fault(onlyName, "has %d keys: want up to %d, as many labels as a job may name", len(only), job.MaxPlacement)
	case err == nil:
		for _, key := range only {
			if _, has := labels[key]; !has {
				r.Fault(onlyName, "has %q: want keys of %s, which has %q", key, name, labels.String())
			}
		}
	}
	return labels, only
}

// machineMB is the memory of the machine in MiB.
func machineMB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1024 // sysinfo(2) can only fail for a bad pointer
	}
	return int(info.Totalram * uint64(info.Unit) >> 20)
}
