package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestPausedSessions: sessions that are paused take no memory and no CPU time, and go on; a worker that dies leaves nothing of them. It says what they take beside
// the same sessions in memory.
//
// GLOVEBOX_IDLE_SESSIONS is how many there are (3, or 1 in short), GLOVEBOX_IDLE_SECONDS for how long they are watched (5).
func TestPausedSessions(t *testing.T) {
	t.Parallel()
	g, n, window, memory := forIdleSessions(t)
	g.worker = g.startWorker(memory)
	alone := g.cpuTime(0, window)
	ids := g.imported(n)
	inMemory, held := g.cpuTime(n, window), g.sandboxMemory()
	plain := g.printed(ids, 1)
	for _, id := range ids {
		if _, err := g.client.EndSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	g.worker.Stop()

	cache := t.TempDir()
	g.worker = g.startWorker(memory, "GLOVEBOX_SESSION_PAUSE_MB=8192", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS=1", "CACHE_DIRECTORY="+cache)
	ids = g.imported(n)
	g.allPaused(ids)
	paused, idle := g.idleTime(0, window, alone)
	onDisk := g.openBytes(cache)
	resumed := g.printed(ids, 1)
	t.Logf("%d sessions: %d MiB of memory, or %d MiB of the disk; over %s %s of CPU time without them, %s with them in memory, %s with them paused; an execution takes %s in memory, %s after a pause",
		n, held>>20, onDisk>>20, window, alone, inMemory, paused, plain, resumed)
	if !idle {
		t.Errorf("paused sessions took %s of CPU time in %s, and the same processes without them %s", paused, window, alone)
	}
	g.allPaused(ids)
	if memory := g.sandboxMemory(); memory > 0 {
		t.Errorf("paused sessions hold %d MiB", memory>>20)
	}
	g.printed(ids, 1)
	g.allPaused(ids)
	if names, err := filepath.Glob(cache + "/*"); err != nil || len(names) > 1 { // that of inputs and answers
		t.Errorf("got %v, %v, want no file with a name", names, err)
	}
	g.worker.Kill()
	g.worker = g.startWorker(memory)
	for _, id := range ids {
		g.sessionEnds(id, job.EndWorkerLost)
	}
}

// imported starts so many sessions. Each has imported numpy and holds something.
func (g *glovebox) imported(n int) (ids []string) {
	g.tb.Helper()
	for range n {
		x := g.startSession()
		ids = append(ids, x.ID)
		g.executedIn(x.ID, "import numpy; a = numpy.random.rand(1 << 18); x = 1")
	}
	return ids
}

// printed is how long the middle one of the sessions takes to print what it holds.
func (g *glovebox) printed(ids []string, x int) time.Duration {
	g.tb.Helper()
	var took times
	for _, id := range ids {
		began := time.Now()
		if r := g.executedIn(id, "print(x, len(a))"); r.Stdout != fmt.Sprintf("%d %d\n", x, 1<<18) || r.Session.Generation != 1 {
			g.tb.Errorf("got %+v", r)
		}
		took = append(took, time.Since(began))
	}
	return took.percentile(50)
}

// allPaused waits until the sessions are.
func (g *glovebox) allPaused(ids []string) {
	g.tb.Helper()
	var waiting sync.WaitGroup
	for _, id := range ids {
		waiting.Go(func() {
			gbtest.Eventually(g.tb, "session is paused", func() bool {
				x, err := g.client.Session(g.tb.Context(), id)
				return err == nil && x.Status == job.SessionPaused
			})
		})
	}
	waiting.Wait()
	gbtest.Eventually(g.tb, "their sandboxes are gone", func() bool { return len(g.ours()) == 0 })
}

// openBytes is what files without a name take that the worker has in the directory.
func (g *glovebox) openBytes(dir string) (sum int64) {
	g.tb.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", g.worker.PID()))
	if err != nil {
		g.tb.Fatal(err)
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, dir) {
			continue
		}
		if info, err := os.Stat(link); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum
}
