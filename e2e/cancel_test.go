package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestCancelEndsTheSandbox: soon after the request there is neither a process of the job's
// sandbox left on the host, nor its container, nor is the job without a result.
func TestCancelEndsTheSandbox(t *testing.T) {
	t.Parallel()
	for name, warm := range map[string][]string{"fresh": {"GLOVEBOX_WARM=0"}, "warm": oneOfEach(t, 2)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{workerEnv: warm})
			g.mostWarm = kinds(t) + 1    // a snapshot is made in one
			const most = 8 * time.Second // a worker that isn't told looks after 10 s
			took := gbtest.Best(5, most, func() time.Duration { return g.cancelRunning(t) })
			t.Logf("all of the sandbox was gone after %s", took)
			if took > most {
				t.Errorf("the sandbox was gone %s after its job's cancellation", took)
			}
		})
	}
}

// cancelRunning cancels a job that runs and ignores every signal it can, and returns how
// long something of its sandbox was left.
func (g *glovebox) cancelRunning(t *testing.T) time.Duration {
	t.Helper()
	id := g.submit(job.Spec{
		Runtime: "bash", Source: `trap "" TERM INT HUP; for i in 1 2 3; do (while :; do :; done) & done; echo spins; wait`,
		Limits: job.Limits{WallMS: 100_000, CPUs: 0.5},
	})
	g.untilItPrints(id)
	var sandboxes []string // that it may have
	for _, c := range g.alive() {
		if c.Labels["run.glovebox.job"] == id || c.Labels["run.glovebox.job"] == "warm" && strings.HasPrefix(c.Image, "localhost/glovebox/bash:") {
			sandboxes = append(sandboxes, c.ID)
		}
	}
	if len(sandboxes) == 0 {
		t.Fatalf("no sandbox is the job's: %+v", g.alive())
	}
	began := time.Now()
	if _, err := g.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for deadline := began.Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		known, alive := g.ours(), hostProcesses()
		gone := slices.ContainsFunc(sandboxes, func(id string) bool {
			here := slices.ContainsFunc(known, func(c container) bool { return c.ID == id })
			return !here && !slices.ContainsFunc(alive, func(cmdline string) bool { return strings.Contains(cmdline, id) })
		})
		if gone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the sandbox of a canceled job is there a minute later")
		}
	}
	if r := g.wait(id); r.Status != job.Canceled {
		t.Errorf("got %+v", r)
	}
	return time.Since(began)
}

// untilItPrints waits until the job has printed something.
func (g *glovebox) untilItPrints(id string) {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), patience)
	defer cancel()
	for e, err := range g.client.Watch(ctx, id, "") {
		switch {
		case err != nil:
			g.tb.Fatalf("the job prints nothing: %v", err)
		case e.Type == producer.EventResult:
			g.tb.Fatalf("the job ended before it printed anything: %+v", e.Job)
		case e.Type == producer.EventStdout:
			return
		}
	}
}

// hostProcesses are the command lines of all processes.
func hostProcesses() (all []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil { // else it has ended
			all = append(all, string(b))
		}
	}
	return all
}
