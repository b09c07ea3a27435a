package worker_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// TestJobBesideASession: a job that needs what a session holds waits in its queue, and others run meanwhile. It runs once the session has ended.
func TestJobBesideASession(t *testing.T) {
	t.Parallel()
	g := servers(t, gbtest.Podman(t))
	g.work(func(c *worker.Config) { c.MemoryMB = 1000 })
	id := g.openSession(job.SessionSettings{Runtime: "bash", Limits: job.Limits{MemoryMB: 300}})
	if res := g.result(g.execute(id, "echo kept")); res.Status != job.Succeeded {
		t.Fatalf("got %+v", res)
	}
	large := g.submit(job.Spec{Runtime: "bash", Source: "echo large", Limits: job.Limits{MemoryMB: 800}})
	g.says("this worker's sessions hold the memory that the job needs")
	if j := g.state(large, job.Queued); j.Attempts != 0 {
		t.Errorf("got %d attempts, want none spent", j.Attempts)
	}
	for range 3 {
		if res := g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo small", Limits: job.Limits{MemoryMB: 100}})); res.Status != job.Succeeded {
			t.Errorf("a job that needs less: got %+v", res)
		}
	}
	g.state(large, job.Queued) // still
	g.end(id)
	if res := g.result(large); res.Status != job.Succeeded || res.Stdout != "large\n" {
		t.Errorf("once the session has ended: got %+v", res)
	}
}
