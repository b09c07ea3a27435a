package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// held is a job that goes on until release is called for it: however busy the machine is,
// it is the test that decides which jobs end within a grace.
func held(says string) job.Spec {
	return job.Spec{
		Runtime: "bash", Source: fmt.Sprintf("until [ -e /tmp/released ]; do sleep 0.2; done; echo %s | tee out.txt", says),
		Limits: job.Limits{WallMS: 300_000},
	}
}

// sandboxes waits until each of the jobs has a container, and returns these.
func (g *glovebox) sandboxes(ids []string) []string {
	g.tb.Helper()
	var found []string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		found = found[:0]
		for _, id := range ids {
			for _, c := range g.inPodman("&filters=" + escape(fmt.Sprintf(`{"label":["run.glovebox.job=%s"]}`, id))) {
				found = append(found, c.ID)
			}
		}
		if len(found) == len(ids) {
			return found
		}
		if time.Now().After(deadline) {
			g.tb.Fatalf("%d of %d jobs run after 2 minutes", len(found), len(ids))
		}
	}
}

// release lets the held jobs in these containers end.
func (g *glovebox) release(containers []string) {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), gbtest.Patience)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range containers {
		all.Go(func() {
			for { // the container may still be starting
				cmd := exec.CommandContext(ctx, "podman", "exec", "--user", "0", c, "/bin/bash", "-c", ": >/tmp/released")
				cmd.Env = append(os.Environ(), gbtest.PodmanEnv()...)
				out, err := cmd.CombinedOutput()
				if err == nil {
					return
				}
				if strings.Contains(string(out), "no such container") {
					return // it was released, and gone before the exec could say so
				}
				if ctx.Err() != nil {
					g.tb.Errorf("release a job: %v: %s", err, out)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	all.Wait()
}

// TestTermWithEightJobs: a worker that runs eight jobs is told to end. Those that can
// finish within its grace do; the others go to another worker, and no attempt is spent.
func TestTermWithEightJobs(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	first := g.startWorker("GLOVEBOX_CONCURRENCY=8", "GLOVEBOX_MEMORY_MB=8192", "GLOVEBOX_GRACE_SECONDS=60")
	var quick, slow []string
	for i := range 4 {
		quick = append(quick, g.submit(held(fmt.Sprintf("quick %d", i))))
		slow = append(slow, g.submit(held(fmt.Sprintf("slow %d", i))))
	}
	quickly := g.sandboxes(quick)
	g.sandboxes(slow)
	first.Signal(syscall.SIGTERM)
	g.release(quickly)
	select {
	case <-first.Done():
	case <-time.After(patience):
		t.Fatal("the worker did not end within 2 minutes of SIGTERM")
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
	g.release(g.sandboxes(slow))
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
