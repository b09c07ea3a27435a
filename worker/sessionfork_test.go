package worker_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// fork asks for a fork of the session.
func (g *glovebox) fork(of string, f job.SessionFork) string {
	g.t.Helper()
	x, err := g.records.GetSession(g.t.Context(), of)
	if err != nil {
		g.t.Fatal(err)
	}
	fork, err := g.records.OpenFork(g.t.Context(), x, f.Settings(x.Settings), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	return fork.ID
}

// wants executes code in the session, which is to print that.
func (g *glovebox) wants(session, code, want string) job.Result {
	g.t.Helper()
	res := g.result(g.execute(session, code))
	if res.Status != job.Succeeded || res.Stdout != want {
		g.t.Errorf("%s in %s: got %+v, want %q", code, session, res, want)
	}
	return res
}

// TestSessionFork: a fork goes on from where its session was in its turn, beside it, has its own count, budget and time, and is itself paused and forked. It holds no memory before its first
// execution.
func TestSessionFork(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Hour, 8192)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits, Metadata: map[string]string{"k": "first"}})
	g.wants(id, "import random; x = [1]; open('kept.txt', 'w').write('one'); print(x)", "[1]\n")
	slow := g.execute(id, "import time; time.sleep(1); x.append(2)")
	fork := g.fork(id, job.SessionFork{TTLSeconds: 300, Budget: &job.SessionBudget{Executions: 3}})
	g.wants(id, "x.append('first'); print(x)", "[1, 2, 'first']\n") // behind the fork
	if res := g.result(slow); res.Status != job.Succeeded {
		t.Errorf("got %+v", res)
	}
	x := g.session(fork, job.SessionPaused)
	if x.ForkOf != id || x.ForkedAt != 2 || x.Executions != 2 || x.Worker != g.id || x.Settings.Metadata != nil || x.Settings.Limits != longLimits || x.Settings.TTLSeconds != 300 || x.Expires.Sub(x.Created) != 300*time.Second {
		t.Errorf("got %+v", x)
	}
	eventually(t, r, `glovebox_paused_sessions 1`, `glovebox_session_pauses_total{result="forked"} 1`)
	res := g.wants(fork, "x.append('fork'); print(x, open('kept.txt').read())", "[1, 2, 'fork'] one\n")
	if res.Session.Sequence != 3 || res.Session.Generation != 1 || res.Session.State != job.StateKept {
		t.Errorf("got %+v, want the third execution", res.Session)
	}
	g.wants(id, "print(x)", "[1, 2, 'first']\n")
	drawn := g.result(g.execute(fork, "print(random.random())"))
	if other := g.result(g.execute(id, "print(random.random())")); drawn.Stdout == other.Stdout || drawn.Status != job.Succeeded {
		t.Errorf("both have drawn %q", drawn.Stdout)
	}
	again := g.fork(fork, job.SessionFork{})
	g.session(again, job.SessionPaused)
	g.end(id)
	g.wants(fork, "print(x)", "[1, 2, 'fork']\n")
	if x := g.session(fork, job.SessionEnded); x.EndReason != job.EndBudget {
		t.Errorf("got %+v, want that its own budget is spent", x)
	}
	g.wants(again, "print(x)", "[1, 2, 'fork']\n")
	g.end(again)
	unused := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.wants(unused, "y = 1; print(y)", "1\n")
	g.end(g.fork(unused, job.SessionFork{})) // in line, or already there
	other := g.fork(unused, job.SessionFork{})
	g.session(other, job.SessionPaused)
	g.end(other)
	g.session(other, job.SessionEnded)
	g.end(unused)
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`)
}

// TestSessionForkPaused: a session that is paused is forked on the disk, and neither takes any memory for it; each has a file of its own.
func TestSessionForkPaused(t *testing.T) {
	t.Parallel()
	g, r := pausing(t, 1<<30, time.Millisecond, 1024)
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
	g.wants(id, "x = 41; print(x)", "41\n")
	g.session(id, job.SessionPaused)
	forks := []string{g.fork(id, job.SessionFork{}), g.fork(id, job.SessionFork{})}
	for _, fork := range forks {
		g.session(fork, job.SessionPaused)
	}
	eventually(t, r, `glovebox_worker_memory_reserved_bytes 0`, `glovebox_paused_sessions 3`, `glovebox_session_pauses_total{result="resumed"} 0`)
	for i, session := range append(forks, id) {
		g.wants(session, "x += "+strings.Repeat("1", i+1)+"; print(x)", []string{"42\n", "52\n", "152\n"}[i])
	}
}

// TestSessionForkSecrets: a fork has its session's secrets as that was given them, masked, though they are others by now; and it lives no longer than that could.
func TestSessionForkSecrets(t *testing.T) {
	t.Parallel()
	keys, g := secretKeys(t), servers(t, gbtest.Podman(t))
	g.disk = 1 << 30
	g.work(func(c *worker.Config) { sessionWorker(c); c.Secrets, c.PauseAfter = keys, time.Hour })
	g.store(keys, "TOKEN", "correct-horse-battery-staple")
	id := g.openSession(job.SessionSettings{Runtime: "python", Secrets: []string{"TOKEN"}, Limits: longLimits})
	g.wants(id, "import os; t = os.environ['TOKEN']; print(t)", "***\n")
	g.store(keys, "TOKEN", "another-horse-is-not-correct")
	fork := g.fork(id, job.SessionFork{TTLSeconds: job.MaxTTLSeconds})
	g.wants(fork, "print(t, len(t))", "*** 28\n")
	first, x := g.session(id, job.SessionReady), g.session(fork, job.SessionReady)
	most := first.Created.Add(job.MaxTTLSeconds * time.Second)
	if x.Expires.After(most) {
		t.Errorf("the fork expires at %v, its session's secrets at %v", x.Expires, most)
	}
	longer := int64(job.MaxTTLSeconds)
	if _, err := g.records.ChangeSession(t.Context(), fork, job.SessionChange{TTLSeconds: &longer}); !errors.As(err, new(job.Invalid)) {
		t.Errorf("more time for a fork that has secrets: got %v, want it refused", err)
	}
	again := g.session(g.fork(fork, job.SessionFork{}), job.SessionPaused)
	if !again.UntilMost.Equal(most) {
		t.Errorf("a fork of the fork may live until %v, want %v", again.UntilMost, most)
	}
}

// TestSessionForkRefused: what can't be forked says so, and names the replay; the session goes on.
func TestSessionForkRefused(t *testing.T) {
	t.Parallel()
	t.Run("no disk", func(t *testing.T) {
		t.Parallel()
		g, r := pausing(t, 1<<20, time.Hour, 8192) // a megabyte is too little for any
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
		g.wants(id, "x = 1; print(x)", "1\n")
		if x := g.session(g.fork(id, job.SessionFork{}), job.SessionEnded); x.EndReason != job.EndFailed || !strings.Contains(x.EndedBecause, "glovebox session replay") {
			t.Errorf("got %+v", x)
		}
		g.wants(id, "x += 1; print(x)", "2\n")
		eventually(t, r, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`)
	})
	t.Run("no pauses", func(t *testing.T) {
		t.Parallel()
		g := start(t, sessionWorker)
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
		g.wants(id, "x = 1; print(x)", "1\n")
		x, err := g.records.GetSession(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.records.OpenFork(t.Context(), x, x.Settings, nil); !errors.Is(err, job.ErrUnforkable) {
			t.Errorf("got %v, want ErrUnforkable", err)
		}
	})
	t.Run("Node beside another language", func(t *testing.T) {
		t.Parallel()
		g, r := pausing(t, 1<<30, time.Hour, 8192)
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
		g.wants(id, "x = 1; print(x)", "1\n")
		execution := job.NewID("default")
		spec := job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: "1"})
		if err := g.records.AddTurn(t.Context(), id, execution, spec, record.NewTurn{Place: record.Place{Context: "js", Language: "javascript"}}); err != nil {
			t.Fatal(err)
		}
		g.result(execution) // python has no such contexts: it is there, and not executed
		if x := g.session(g.fork(id, job.SessionFork{}), job.SessionEnded); x.EndReason != job.EndFailed || !strings.Contains(x.EndedBecause, `"js"`) || !strings.Contains(x.EndedBecause, "glovebox session replay") {
			t.Errorf("got %+v", x)
		}
		g.wants(id, "x += 1; print(x)", "2\n")
		eventually(t, r, `glovebox_paused_sessions 0`, `glovebox_paused_sessions_bytes 0`)
	})
	t.Run("its worker shuts down", func(t *testing.T) {
		t.Parallel()
		g, _ := pausing(t, 1<<30, time.Hour, 8192)
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
		endless := g.execute(id, "print('begun', flush=True)\nwhile True: pass")
		g.state(endless, job.Running)
		waits := g.fork(id, job.SessionFork{})
		if err := g.stop(); err != nil {
			t.Fatal(err)
		}
		if x := g.session(waits, job.SessionEnded); x.EndReason != job.EndFailed {
			t.Errorf("got %+v, want it ended with its session", x)
		}
	})
	t.Run("its file is changed", func(t *testing.T) {
		t.Parallel()
		g, _ := pausing(t, 1<<30, time.Hour, 8192)
		id := g.openSession(job.SessionSettings{Runtime: "python", Limits: longLimits})
		g.wants(id, "secret = 'never ' + 'to be read'; again = [secret] * 100_000; print(1)", "1\n")
		fork := g.fork(id, job.SessionFork{})
		g.session(fork, job.SessionPaused)
		f := openFile(t, g.pauseDir)
		b, err := os.ReadFile(f.Name())
		if err != nil || strings.Contains(string(b), "never to be read") || len(b) < 1<<20 {
			t.Fatalf("got %d bytes, %v, with the session's text", len(b), err)
		}
		if _, err := f.WriteAt([]byte{^b[1<<19]}, 1<<19); err != nil {
			t.Fatal(err)
		}
		execution := g.execute(fork, "print(1)")
		if res := g.result(execution); res.Status != job.InternalError || res.Error == nil || res.Error.Code != job.CodeSessionLost {
			t.Errorf("got %+v, want session_lost", res)
		}
		if x := g.session(fork, job.SessionEnded); x.EndReason != job.EndPause {
			t.Errorf("got %+v", x)
		}
		g.wants(id, "print(secret)", "never to be read\n")
	})
}
