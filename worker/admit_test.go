package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// submitLarge submits a job whose spec is in the bucket.
func (g *glovebox) submitLarge(spec job.Spec) string {
	g.t.Helper()
	id := job.NewID("default")
	keys, err := artifacts.JobKeys("default", id)
	if err != nil {
		g.t.Fatal(err)
	}
	b, err := json.Marshal(spec)
	if err == nil {
		_, err = g.objects.PutBytes(g.t.Context(), keys.Spec(), "application/json", b)
	}
	if err == nil {
		err = g.records.Create(g.t.Context(), id, spec, keys.Spec())
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return id
}

// TestLargeSpecsCount: what a spec takes as it is read counts against the worker's memory,
// and jobs that can't have theirs at once have it one after the other.
func TestLargeSpecsCount(t *testing.T) {
	t.Parallel()
	r := metrics.NewRegistry("v1")
	g := start(t, func(c *worker.Config) {
		// One job needs 320 MiB for its sandbox and 51 for its spec; another's spec has no room beside that.
		c.Metrics, c.Concurrency, c.MemoryMB = metrics.NewWorker(r, []string{"bash"}), 2, 400
	})
	spec := job.Spec{
		Runtime: "bash", Source: "wc -c <large; until [ -e go ]; do sleep 0.1; ((n++ > 30)) && exit; done", Limits: job.Limits{MemoryMB: 256, Processes: 64, WallMS: 60_000},
		Files: []job.File{{Name: "large", Content: strings.Repeat("a", 16<<20)}},
	}
	ids := []string{g.submitLarge(spec), g.submitLarge(spec)}
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 3\.89021696e\+08`)
	for _, id := range ids {
		if r := g.result(id); r.Status != job.Succeeded || r.Stdout != "16777216\n" || r.Attempt != 1 {
			t.Errorf("got %s, %q at attempt %d: %+v", r.Status, r.Stdout, r.Attempt, r.Error)
		}
	}
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`)
}
