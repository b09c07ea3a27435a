package worker_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// pausing is a worker with so many bytes of a disk for sessions, which it pauses after that time.
func pausing(t *testing.T, disk int64, after time.Duration, memoryMB int64) (*glovebox, *prometheus.Registry) {
	t.Helper()
	g, r := servers(t, gbtest.Podman(t)), metrics.NewRegistry("v1")
	g.disk = disk
	g.work(func(c *worker.Config) {
		c.PauseAfter, c.MemoryMB, c.Metrics = after, memoryMB, metrics.NewWorker(r, []string{"python"})
	})
	return g, r
}

var longLimits = job.Limits{WallMS: 60_000, MemoryMB: 300}

// end ends the session, as its owner does.
func (g *glovebox) end(id string) {
	g.t.Helper()
	if err := g.records.EndSession(g.t.Context(), id, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
		g.t.Fatal(err)
	}
}

// TestSessionPaused: an idle session is paused, holds no memory then, and goes on as if nothing had been, any number of times; it ends while it is
// paused as it would have in memory.
func TestSessionPaused(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Millisecond, 8192)
	ctx := t.Context()
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.session(id, job.SessionPaused) // before it has executed anything
	for i := range 3 {
		g.session(id, job.SessionPaused)
		eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 1`)
		res := g.result(g.execute(id, "x = globals().get('x', 40) + 1; print(x)"))
		if want := fmt.Sprintf("%d\n", 41+i); res.Status != job.Succeeded || res.Stdout != want || res.Session.Generation != 1 || res.Session.State != job.StateKept {
			t.Fatalf("got %+v, want %s", res, want)
		}
		if res.Timing.StartupMS < 50 {
			t.Errorf("got %+v, want that the time of the resume is its startup's", res.Timing)
		}
	}
	g.session(id, job.SessionPaused)
	more := int64(600)
	if x, err := g.records.ChangeSession(ctx, id, job.SessionChange{TTLSeconds: &more}); err != nil || x.State != job.SessionPaused {
		t.Errorf("change a paused one: got %s, %v", x.State, err)
	}
	endless := g.execute(id, "print('begun', flush=True)\nwhile True: pass")
	g.state(endless, job.Running)
	if _, err := g.records.Cancel(ctx, endless, nil); err != nil {
		t.Fatal(err)
	}
	if res := g.result(endless); res.Status != job.Canceled || res.Session != nil && res.Session.State != job.StateKept { // nil: it was not executed
		t.Errorf("an execution that is canceled as its session is resumed: got %+v", res)
	}
	if res := g.result(g.execute(id, "print(x)")); res.Stdout != "43\n" || res.Session.Generation != 1 {
		t.Errorf("behind one that was canceled: got %+v, want the state kept", res)
	}
	g.session(id, job.SessionPaused)
	g.end(id)
	idle := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	ttl := g.openSession(job.SessionSettings{Runtime: "node", Limits: longLimits})
	soon := int64(5)
	for one, change := range map[string]job.SessionChange{idle: {IdleSeconds: &soon}, ttl: {TTLSeconds: &soon}} {
		g.result(g.execute(one, "1"))
		g.session(one, job.SessionPaused)
		if _, err := g.records.ChangeSession(ctx, one, change); err != nil {
			t.Fatal(err)
		}
	}
	if x := g.session(idle, job.SessionEnded); x.EndReason != job.EndIdle {
		t.Errorf("got %+v, want idle", x)
	}
	if x := g.session(ttl, job.SessionEnded); x.EndReason != job.EndTTL && x.EndReason != job.EndIdle {
		t.Errorf("got %+v, want ttl", x)
	}
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`, `glovebox_session_pauses_total{result="ended"} 3`,
		`glovebox_session_pauses_total{result="resumed"} [3-8]`, `glovebox_session_pauses_total{result="stayed"} 0`, `glovebox_session_pause_seconds_count{step="resume"} [3-8]`)
	drained := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.session(drained, job.SessionPaused)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if x := g.session(drained, job.SessionEnded); x.EndReason != job.EndDrained {
		t.Errorf("got %+v, want drained", x)
	}
}

// TestSessionPausedForMemory: where memory is wanted, idle sessions give theirs, and wait for it in their turn.
func TestSessionPausedForMemory(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Hour, 1024) // of which sessions have the half: room for one
	first := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.result(g.execute(first, "x = 1"))
	second := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	if res := g.result(g.execute(second, "x = 2; print(x)")); res.Stdout != "2\n" {
		t.Errorf("got %+v", res)
	}
	if x := g.session(first, job.SessionPaused); x.Worker != g.id {
		t.Errorf("got %+v", x)
	}
	if res := g.result(g.execute(first, "print(x)")); res.Stdout != "1\n" || res.Session.Generation != 1 {
		t.Errorf("got %+v", res)
	}
	g.session(second, job.SessionPaused)
	large := g.submit(job.Spec{Runtime: "python", Source: "print(3)", Limits: job.Limits{MemoryMB: 900}})
	if res := g.result(large); res.Stdout != "3\n" {
		t.Errorf("a job that needs what an idle session holds: got %+v", res)
	}
	g.session(first, job.SessionPaused)
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 2`)
	endless := g.execute(first, "while True: pass")
	g.state(endless, job.Running)
	waits := g.execute(second, "print(x)")
	canceled := g.execute(second, "print(x)")
	if status, err := g.records.Cancel(t.Context(), canceled, nil); err != nil || status != job.Canceled {
		t.Errorf("one that waits for memory: got %s, %v, want it canceled at once", status, err)
	}
	if j, err := g.records.Get(t.Context(), waits); err != nil || j.State != job.Queued {
		t.Errorf("got %s, %v, want that it waits for memory", j.State, err)
	}
	if _, err := g.records.Cancel(t.Context(), endless, nil); err != nil {
		t.Fatal(err)
	}
	if res := g.result(waits); res.Stdout != "2\n" {
		t.Errorf("got %+v", res)
	}
}

// openFile is the file that a session of this process is paused in. (A test's own descriptors are all that lead to it.)
func openFile(t *testing.T, dir string) *os.File {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) && strings.HasSuffix(to, "(deleted)") {
			f, err := os.OpenFile(link, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
	}
	t.Fatal("no file of a paused session is open")
	return nil
}

// TestSessionPauseSpoilt: what lies on the disk says nothing to others, and a session whose file was changed ends, as it says; its sandbox is never made.
func TestSessionPauseSpoilt(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Millisecond, 8192)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.result(g.execute(id, "secret = 'never ' + 'to be read'; again = [secret] * 100_000 + [secret.upper()]"))
	g.session(id, job.SessionPaused)
	f := openFile(t, g.pauseDir)
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() < 1<<20 {
		t.Fatalf("got %v, %v", info, err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"never to be read", "NEVER TO BE READ", "glovebox", "python"} {
		if strings.Contains(string(b), words) {
			t.Errorf("%q can be read on the disk", words)
		}
	}
	b[len(b)/2] ^= 1
	if _, err := f.WriteAt(b[len(b)/2:len(b)/2+1], int64(len(b)/2)); err != nil {
		t.Fatal(err)
	}
	res := g.result(g.execute(id, "print(secret)"))
	if res.Status != job.InternalError || res.Error == nil || res.Error.Code != job.CodeSessionLost || res.Stdout != "" {
		t.Errorf("got %+v, want session_lost", res)
	}
	if x := g.session(id, job.SessionEnded); x.EndReason != job.EndPause {
		t.Errorf("got %+v, want pause_failed", x)
	}
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`)
}

// TestSessionPauseOutage: a paused session waits for a Podman that is away.
func TestSessionPauseOutage(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Millisecond, 8192)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.result(g.execute(id, "x = 41"))
	g.session(id, job.SessionPaused)
	g.podman.Kill()
	waits := g.execute(id, "print(x + 1)")
	g.says("a paused session could not go on, trying again")
	g.podman.Restart()
	if res := g.result(waits); res.Stdout != "42\n" || res.Session.Generation != 1 {
		t.Errorf("got %+v", res)
	}
	g.end(id)
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`)
}

// TestSessionPauseNoDisk: what doesn't fit on the disk stays in memory, and goes on.
func TestSessionPauseNoDisk(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 4<<20, time.Millisecond, 8192)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	for i := range 2 {
		if res := g.result(g.execute(id, "x = globals().get('x', 40) + 1; print(x)")); res.Stdout != fmt.Sprintf("%d\n", 41+i) || res.Session.Generation != 1 {
			t.Errorf("got %+v", res)
		}
		g.session(id, job.SessionReady)
		g.says("session could not be paused, it stays in memory")
	}
	eventually(t, r, `glovebox_session_pauses_total{result="stayed"} 1`, `glovebox_session_pauses_total{result="paused"} 0`)
	if !strings.Contains(g.log.String(), "all of the disk that they may have") {
		t.Error("the log does not say why")
	}
}

// TestSessionPauseRaces: executions, cancels, changes and ends that meet a pause or a resume lose no state, and no session is left behind.
func TestSessionPauseRaces(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, 20*time.Millisecond, 3000) // with room for four of six
	var sessions sync.WaitGroup
	for n := range 6 {
		sessions.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			id := g.openSession(job.SessionSettings{Runtime: []string{"python", "node"}[n%2], Limits: longLimits})
			add := []string{"x = globals().get('x', 0) + 1; print(x)", "globalThis.x = (globalThis.x ?? 0) + 1; console.log(globalThis.x)"}[n%2]
			for i := range 8 {
				time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond) // to meet each step of a pause
				more := int64(600 + i)
				if _, err := g.records.ChangeSession(t.Context(), id, job.SessionChange{TTLSeconds: &more}); err != nil {
					t.Error(err)
				}
				if random.IntN(3) == 0 {
					never := g.execute(id, []string{"while True: pass", "while (true) {}"}[n%2])
					if _, err := g.records.Cancel(t.Context(), never, nil); err != nil {
						t.Error(err)
					}
					if j := g.state(never); j.State != job.Canceled {
						t.Errorf("got %+v, want it canceled", j)
					}
				}
				res := g.result(g.execute(id, add))
				if res.Status != job.Succeeded || res.Stdout != fmt.Sprintf("%d\n", i+1) || res.Session.Generation != 1 {
					t.Errorf("session %d: got %s %q %+v, want %d\n%s", n, res.Status, res.Stdout, res.Session, i+1, res.Stderr)
					return
				}
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			g.end(id)
		})
	}
	sessions.Wait()
	if t.Failed() {
		return
	}
	gbtest.Eventually(t, "all sandboxes are gone", func() bool { return strings.Count(g.log.String(), `msg="session ends"`) == 6 })
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`, `glovebox_session_pauses_total{result="stayed"} 0`)
	t.Logf("%d pauses", strings.Count(g.log.String(), `msg="session paused`))
}
