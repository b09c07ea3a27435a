package worker_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
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

// TestApproved: a worker runs what somebody approved, and nothing else: neither in the record nor in the bucket can it become another job.
func TestApproved(t *testing.T) {
	t.Parallel()
	g := start(t, func(*worker.Config) {})
	held := func(source string) (j record.Record, keys artifacts.Keys) {
		t.Helper()
		spec := job.Spec{Runtime: "bash", Source: source, Limits: job.Limits{WallMS: 60_000}}
		id := job.NewID("default")
		text, err := job.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		keys, err = artifacts.JobKeys("default", id)
		if err != nil {
			t.Fatal(err)
		}
		n := record.NewJob{ID: id, Spec: spec, JSON: text, Hold: &record.Held{Hold: job.Hold{Rule: "r", ExpiresAt: time.Now().Add(time.Hour), InputHash: record.HashInput(id, text)}}}
		if len(source) > record.MaxInline {
			n.SpecRef = keys.Spec()
			if _, err := g.objects.PutBytes(t.Context(), keys.Spec(), "application/json", text); err != nil {
				t.Fatal(err)
			}
		}
		if created, err := g.records.CreateMany(t.Context(), "default", []record.NewJob{n}); err != nil || created[0].Err != nil {
			t.Fatal(err, created)
		}
		if j, err = g.records.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return j, keys
	}
	approve := func(j record.Record) {
		t.Helper()
		if err := g.records.Approve(t.Context(), j, job.Approval{Rule: "r", By: "somebody", InputHash: j.Hold.InputHash}); err != nil {
			t.Fatal(err)
		}
	}
	large := "echo good #" + strings.Repeat("x", 100<<10)
	for _, source := range []string{"echo good", large} {
		j, _ := held(source)
		approve(j)
		if r := g.result(j.ID); r.Status != job.Succeeded || r.Stdout != "good\n" || r.Approval == nil || r.Approval.By != "somebody" {
			t.Errorf("got %+v", r)
		}
		j, keys := held(source)
		evil := []byte(`{"spec_version":1,"runtime":"bash","source":"echo evil","limits":{"wall_ms":60000}}`)
		if j.SpecRef == "" {
			if err := g.records.Redis().HSet(t.Context(), "gb:{default}:job:"+j.ID, "spec", evil).Err(); err != nil {
				t.Fatal(err)
			}
		} else if _, err := g.objects.PutBytes(t.Context(), keys.Spec(), "application/json", evil); err != nil {
			t.Fatal(err)
		}
		approve(j)
		if r := g.result(j.ID); r.Status != job.InternalError && r.Status != job.Failed || r.Error == nil || r.Error.Code != job.CodeInputChanged || r.Stdout != "" {
			t.Errorf("changed after it was shown: got %+v, %+v", r, r.Error)
		}
	}
}
