package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestTermWithEightJobs: a worker that runs eight jobs is told to end. Those that can
// finish within its grace do; the others go to another worker, and no attempt is spent.
func TestTermWithEightJobs(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	first := g.startWorker("GLOVEBOX_CONCURRENCY=8", "GLOVEBOX_MEMORY_MB=8192", "GLOVEBOX_GRACE_SECONDS=15")
	var quick, slow []string
	for i := range 4 {
		spec := job.Spec{Runtime: "bash", Source: fmt.Sprintf("sleep 3; echo quick %d | tee out.txt", i), Limits: job.Limits{WallMS: 120_000}}
		quick = append(quick, g.submit(spec))
		spec.Source = fmt.Sprintf("sleep 30; echo slow %d | tee out.txt", i)
		slow = append(slow, g.submit(spec))
	}
	for deadline := time.Now().Add(time.Minute); len(g.containers()) < 8; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 8 jobs run after a minute", len(g.containers()))
		}
	}
	first.Stop() // SIGTERM; it has 30 s
	if !first.Printed("glovebox-worker drained") || first.Printed("failed on us") {
		t.Error("the worker did not drain")
	}
	handedBack := strings.Count(first.Output(), `msg="job handed back"`)
	if handedBack < 4 || handedBack == 8 {
		t.Errorf("%d of 8 jobs were handed back, want the 4 that take longer than the grace", handedBack)
	}
	if c := g.containers(); len(c) > 0 {
		t.Errorf("the worker left %q", c)
	}
	t.Logf("%d of 8 jobs finished within the grace, %d were handed back", 8-handedBack, handedBack)
	g.startWorker("GLOVEBOX_CONCURRENCY=8", "GLOVEBOX_MEMORY_MB=8192")
	var results []job.Result
	workers := map[string]int{}
	for kind, ids := range map[string][]string{"quick": quick, "slow": slow} {
		for i, id := range ids {
			r := g.wait(id, 2*time.Minute)
			if want := fmt.Sprintf("%s %d\n", kind, i); r.Status != job.Succeeded || r.Stdout != want || r.Attempt != 1 || len(r.Artifacts) != 1 {
				t.Errorf("got %s, %q at attempt %d, want %q at the first", r.Status, r.Stdout, r.Attempt, want)
			}
			workers[r.Worker]++
			results = append(results, r)
		}
	}
	if len(workers) != 2 {
		t.Errorf("jobs were run by %v, want two workers", workers)
	}
	g.nothingLeft(results...)
}
