package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// held is a job that goes on until release is called for it: however busy the machine is,
// it is the test that decides which jobs end within a grace.
func held(says string) job.Spec {
	return job.Spec{
		Runtime: "bash", Source: fmt.Sprintf("read; echo %s | tee out.txt", says), Interactive: true,
		Limits: job.Limits{WallMS: 300_000},
	}
}

// allRun waits until each of the jobs does, at this attempt.
func (g *glovebox) allRun(attempt int, ids []string) {
	g.tb.Helper()
	for _, id := range ids {
		gbtest.Eventually(g.tb, "job "+id+" runs", func() bool {
			j, err := g.client.Get(g.tb.Context(), id)
			return err == nil && j.Status == job.Running && j.Attempt == attempt
		})
	}
}

// theOneThatRuns waits until exactly one job runs, and returns its id.
func (g *glovebox) theOneThatRuns() (id string) {
	g.tb.Helper()
	gbtest.Eventually(g.tb, "one job runs", func() bool {
		page, err := g.client.List(g.tb.Context(), producer.ListOptions{Status: []job.Status{job.Running}})
		if err != nil || len(page.Jobs) != 1 {
			return false
		}
		id = page.Jobs[0].ID
		return true
	})
	return id
}

// release lets held jobs end.
func (g *glovebox) release(ids []string) {
	g.tb.Helper()
	for _, id := range ids {
		if err := g.client.SendInput(g.tb.Context(), id, job.Input{Data: "\n"}); err != nil {
			g.tb.Error(err)
		}
	}
}

// TestTermWithEightJobs: a worker that runs eight jobs is told to end. Those that can
// finish within its grace do; the others go to another worker, and no attempt is spent.
func TestTermWithEightJobs(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	first := g.startWorker("GLOVEBOX_CONCURRENCY=8", "GLOVEBOX_MEMORY_MB=8192", "GLOVEBOX_GRACE_SECONDS=30")
	var quick, slow []string
	for i := range 4 {
		quick = append(quick, g.submit(held(fmt.Sprintf("quick %d", i))))
		slow = append(slow, g.submit(held(fmt.Sprintf("slow %d", i))))
	}
	g.allRun(1, quick)
	g.allRun(1, slow)
	first.Signal(syscall.SIGTERM)
	g.release(quick)
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Fatal("the worker did not end after SIGTERM")
	}
	if !first.Printed("glovebox-worker drained") || first.Printed("failed on an internal error") {
		t.Error("the worker did not drain")
	}
	if n := strings.Count(first.Output(), `msg="job handed back"`); n != 4 {
		t.Errorf("%d of 8 jobs were handed back, want the 4 that go on beyond the grace", n)
	}
	if c := g.containers(); len(c) > 0 {
		t.Errorf("the worker left %q", c)
	}
	g.startWorker("GLOVEBOX_CONCURRENCY=8", "GLOVEBOX_MEMORY_MB=8192")
	g.allRun(1, slow)
	g.release(slow)
	var results []job.Result
	workers := map[string]string{}
	for kind, ids := range map[string][]string{"quick": quick, "slow": slow} {
		for i, id := range ids {
			r := g.wait(id)
			if want := fmt.Sprintf("%s %d\n", kind, i); r.Status != job.Succeeded || r.Stdout != want || r.Attempt != 1 || len(r.Artifacts) != 1 {
				t.Errorf("got %s, %q at attempt %d, want %q at the first", r.Status, r.Stdout, r.Attempt, want)
			}
			if w, ok := workers[kind]; ok && w != r.Worker {
				t.Errorf("%s jobs were run by %s and %s", kind, w, r.Worker)
			}
			workers[kind] = r.Worker
			results = append(results, r)
		}
	}
	if workers["quick"] == workers["slow"] {
		t.Errorf("%s ran all jobs, want two workers", workers["quick"])
	}
	g.nothingLeft(results...)
}
