package worker_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// TestMetrics runs jobs and looks at what is measured of them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := metrics.NewRegistry("v1")
	g := start(t, func(c *worker.Config) {
		c.Metrics, c.Concurrency, c.MemoryMB = metrics.NewWorker(r, []string{"bash"}), 3, 1000
	})
	eventually(t, r, `glovebox_worker_concurrency 3`, `glovebox_worker_memory_budget_bytes 1.048576e\+09`, `glovebox_worker_jobs 0`,
		`glovebox_worker_warm_sandboxes{runtime="bash"} 0`)
	g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo 12345 > file; exit 3"}))
	eventually(
		t, r,
		`glovebox_job_run_seconds_count{runtime="bash"} 1`, `glovebox_sandbox_startup_seconds_count{runtime="bash",start="cold"} 1`,
		`glovebox_artifacts_total{kind="file"} 1`, `glovebox_artifact_bytes_total{kind="file"} 6`,
		`glovebox_worker_jobs 0`, `glovebox_worker_memory_reserved_bytes 0`,
	)
	slow := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 60_000, MemoryMB: 100}})
	eventually(t, r, `glovebox_worker_jobs 1`, `glovebox_worker_memory_reserved_bytes 1\.[0-9]+e\+08`) // 100 MiB and the sandbox's own
	if _, err := g.records.Cancel(t.Context(), slow, nil); err != nil {
		t.Fatal(err)
	}
	g.state(slow)
	eventually(t, r, `glovebox_worker_jobs 0`, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_job_failures_total{reason="sandbox"} 0`, `glovebox_job_failures_total{reason="other"} 0`)
	g.submit(job.Spec{Runtime: "no runtime of this worker", Source: "x"})
	eventually(t, r, `glovebox_jobs_not_offered_total{to="nobody"} 1`, `glovebox_jobs_not_offered_total{to="worker"} 0`, `glovebox_job_failures_total{reason="other"} 0`)
	if text := scrape(t, r); strings.Contains(text, "no runtime of") || strings.Contains(text, slow) {
		t.Error("what a tenant chose is in what is scraped")
	}
}

// TestStoreFailureIsCountedAsOne: the sandbox is not to blame for its sink. And a worker
// that pauses says so.
func TestStoreFailureIsCountedAsOne(t *testing.T) {
	t.Parallel()
	r := metrics.NewRegistry("v1")
	g := start(t, func(c *worker.Config) { c.Metrics = metrics.NewWorker(r, []string{"bash"}) })
	g.s3.Kill()
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello > file"})
	eventually(t, r, `glovebox_job_failures_total{reason="store"} [1-9]`, `glovebox_job_failures_total{reason="sandbox"} 0`, `glovebox_worker_paused 1`)
	g.s3.Restart()
	eventually(t, r, `glovebox_worker_paused 0`)
	if got := g.result(id); got.Status != job.Succeeded {
		t.Errorf("got %s", got.Status)
	}
}

// eventually waits until each of these matches a line of what is scraped: a job's record,
// say, ends a moment before the worker is done with it.
func eventually(t *testing.T, r *prometheus.Registry, lines ...string) {
	t.Helper()
	for began := time.Now(); ; gbtest.Pause(began) {
		text, missing := scrape(t, r), ""
		for _, line := range lines {
			if !regexp.MustCompile("(?m)^" + line + "$").MatchString(text) {
				missing = line
			}
		}
		if missing == "" {
			return
		}
		if time.Since(began) > gbtest.Patience {
			t.Fatalf("%s is missing in:\n%s", missing, text)
		}
	}
}

func scrape(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(r, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}
