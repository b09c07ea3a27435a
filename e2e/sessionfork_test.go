package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// forking are a worker's settings by which sessions can be forked.
func forking(cache string) []string {
	return []string{"GLOVEBOX_SESSION_PAUSE_MB=1024", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS=3600", "CACHE_DIRECTORY=" + cache}
}

// TestSessionForkCommand: a fork from the shell, whose transcript verifies from the first session's beginning, and is replayed from there; what can't be forked is replayed where that was asked for.
func TestSessionForkCommand(t *testing.T) {
	t.Parallel()
	seed := attest.NewSeed()
	g := start(t, options{workerEnv: append(forking(t.TempDir()), "GLOVEBOX_SIGNING_KEY="+seed)})
	x := g.startSession()
	g.executedIn(x.ID, "x = 40")
	g.executedIn(x.ID, "x += 1; print(x)")
	out, code := g.shell("session", "fork", "--ttl", "10m", x.ID)
	fork := strings.TrimSpace(out)
	if code != 0 || fork == x.ID || !strings.Contains(fork, "-s-") {
		t.Fatalf("got exit code %d and %q", code, out)
	}
	g.executedIn(x.ID, "x = 'not in the fork'")
	if r := g.executedIn(fork, "x += 1; print(x)"); r.Stdout != "42\n" || r.Session.Sequence != 3 || r.Session.Generation != 1 {
		t.Errorf("got %+v, want 42", r)
	}
	if is, err := g.client.Session(t.Context(), fork); err != nil || is.ForkOf != x.ID || is.ForkedAt != 2 || is.TTLSeconds != 600 || is.Attested != 3 {
		t.Errorf("got %+v, %v", is, err)
	}
	dir := t.TempDir()
	transcript, code := g.shell("session", "transcript", fork)
	if lines := strings.Count(transcript, "\n"); code != 0 || lines != 3 {
		t.Fatalf("got exit code %d and %d executions, want those before the fork and its own", code, lines)
	}
	if err := os.WriteFile(dir+"/fork.jsonl", []byte(transcript), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := g.shell("verify", "--session", "--count", "3", dir+"/fork.jsonl"); code != 0 {
		t.Errorf("got exit code %d and %s", code, out)
	}
	lines := strings.SplitAfter(transcript, "\n")
	if err := os.WriteFile(dir+"/gap.jsonl", []byte(lines[0]+lines[2]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := g.shell("verify", "--session", dir+"/gap.jsonl"); code == 0 {
		t.Errorf("without the last one before the fork: got %s", out)
	}
	if out, code := g.shell("session", "replay", "--end", fork); code != 0 || strings.Count(out, "same") != 3 {
		t.Errorf("got exit code %d and %s", code, out)
	}
	g.worker.Stop()
	g.worker = g.startWorker() // that pauses none
	x = g.startSession()
	g.executedIn(x.ID, "x = 1")
	if out, code := g.shell("session", "fork", x.ID); code == 0 {
		t.Errorf("got %s, want that it can't be forked", out)
	}
	if out, code = g.shell("session", "fork", "--or-replay", x.ID); code != 0 {
		t.Fatalf("got exit code %d and %s", code, out)
	}
	if r := g.executedIn(strings.TrimSpace(out), "print(x)"); r.Stdout != "1\n" {
		t.Errorf("got %+v, want 1", r)
	}
}

// TestKillAtFork kills the worker, or Redis, at each step of a fork. A lost worker's session and fork are told of as such, or as failed where the fork was in line still, and nothing is left of
// either; without Redis for a while both go on.
func TestKillAtFork(t *testing.T) {
	t.Parallel()
	for _, step := range []string{failpoint.ForkTaken, failpoint.ForkWritten, failpoint.BeforeStart, failpoint.Running} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				g, cache := start(t, options{noWorker: true}), t.TempDir()
				doomed := g.startWorker(append(forking(cache), g.failpoint("kill", step))...)
				x := g.startSessionWith(job.SessionSettings{Callback: &job.Callback{URL: g.hook.url, Events: []string{job.EventSessionEnded}}})
				f, err := g.forked(x.ID, step, doomed)
				if err != nil {
					t.Fatal(err)
				}
				g.startWorker()
				g.sessionEnds(x.ID, job.EndWorkerLost)
				g.sessionEnds(f.ID, job.EndWorkerLost)
				g.toldOfEnd(x.ID, job.EndWorkerLost)
				g.toldOfEnd(f.ID, job.EndWorkerLost)
				gbtest.Eventually(t, "no container is left", func() bool { return len(g.containers()) == 0 })
				if names, err := filepath.Glob(cache + "/*"); err != nil || len(names) > 1 { // that of inputs and answers
					t.Errorf("got %v, %v, want no file with a name", names, err)
				}
			})
		})
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		for _, step := range []string{failpoint.ForkTaken, failpoint.ForkWritten} {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				g := start(t, options{noWorker: true})
				g.startWorker(append(forking(t.TempDir()), g.failpoint("pause", step))...)
				x := g.startSession()
				g.executedIn(x.ID, "x = 1")
				f, err := g.client.ForkSession(t.Context(), x.ID, job.SessionFork{})
				if err != nil {
					t.Fatal(err)
				}
				g.reached(step)
				g.redis.Kill()
				g.redis.Restart()
				g.goOn(step)
				for _, id := range []string{x.ID, f.ID} {
					if r := g.executedIn(id, "x += 1; print(x)"); r.Stdout != "2\n" || r.Session.Sequence != 2 {
						t.Errorf("%s: got %+v, want 2", id, r)
					}
				}
			})
		}
	})
}

// forked has the session forked by a worker that dies at the step, and returns the fork once it has.
func (g *glovebox) forked(of, step string, doomed *gbtest.Process) (job.Session, error) {
	g.tb.Helper()
	ctx := g.tb.Context()
	gbtest.Eventually(g.tb, "the session is ready", func() bool {
		x, err := g.client.Session(ctx, of)
		return err == nil && x.Status == job.SessionReady
	})
	f, err := g.client.ForkSession(ctx, of, job.SessionFork{Callback: &job.Callback{URL: g.hook.url}})
	if err != nil {
		return f, fmt.Errorf("fork: %w", err)
	}
	if step == failpoint.BeforeStart || step == failpoint.Running {
		g.executeIn(f.ID, counts)
	}
	diesByItself(g.tb, doomed)
	return f, nil
}
