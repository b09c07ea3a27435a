package e2e

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// counts adds to what its session holds, prints it and leaves a file.
const counts = "x = globals().get('x', 0) + 1; print(x, flush=True); n = open('x.txt', 'w').write(str(x) * 100_000)"

// sessionSteps are those of a session that executes: claimed, held, and those of the execution.
var sessionSteps = append([]string{failpoint.SessionClaimed, failpoint.SessionHeld}, workerSteps...)

// TestKillAtExecution kills Redis or Podman's service at each step of a session's first execution, from its claim on: it ends as it would have, and its session keeps its state. A
// worker that is killed there takes both with it, which is told, and nothing is executed twice.
func TestKillAtExecution(t *testing.T) {
	t.Parallel()
	for _, step := range sessionSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			for name, victims := range map[string][]string{"redis": {"redis"}, "podman": {"podman"}, "redis and podman": {"redis", "podman"}} {
				if testing.Short() && len(victims) == 1 {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					g := start(t, options{noWorker: true})
					g.startWorker(g.failpoint("pause", step))
					x := g.startSession()
					id := g.executeFor(x.ID, counts)
					g.reached(step)
					for _, victim := range victims {
						p := map[string]killer{"redis": g.redis, "podman": g.podman}[victim]
						p.Kill()
						p.Restart()
					}
					g.goOn(step)
					if r := g.wait(id); r.Status != job.Succeeded || r.Stdout != "1\n" || len(r.Artifacts) != 1 || r.Session.State != job.StateKept {
						t.Errorf("got %+v", r)
					}
					if r := g.executedIn(x.ID, "print(x)"); r.Stdout != "1\n" || r.Session.Generation != 1 {
						t.Errorf("got %+v, want 1", r)
					}
					g.toldOnce(id)
				})
			}
			t.Run("worker", func(t *testing.T) {
				if testing.Short() && step != failpoint.Running && step != failpoint.RecordEnded {
					t.Skip("make test-long runs this: in short, while it runs and once it has ended")
				}
				t.Parallel()
				g := start(t, options{noWorker: true})
				doomed := g.startWorker(g.failpoint("kill", step))
				x := g.startSessionWith(job.SessionSettings{Callback: &job.Callback{URL: g.hook.url}})
				id := g.executeIn(x.ID, counts)
				waits := g.executeIn(x.ID, counts)
				diesByItself(t, doomed)
				g.startWorker()
				g.sessionEnds(x.ID, job.EndWorkerLost)
				r := g.wait(id)
				switch {
				case step == failpoint.SessionClaimed || step == failpoint.SessionHeld: // nothing of it has begun
					if r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
						t.Errorf("got %+v, want session_ended", r)
					}
				case step == failpoint.RecordEnded:
					if r.Status != job.Succeeded || r.Stdout != "1\n" {
						t.Errorf("got %+v, want what it had come to", r)
					}
				case r.Status != job.InternalError || r.Error == nil || r.Error.Code != job.CodeSessionLost:
					t.Errorf("got %+v, want session_lost", r)
				}
				if r := g.wait(waits); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
					t.Errorf("got %+v, want session_ended", r)
				}
				if _, err := g.client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "1"}); !errors.Is(err, job.ErrSessionEnded) {
					t.Errorf("got %v, want ErrSessionEnded", err)
				}
				g.toldOnce(id)
				g.toldOnce(waits)
				g.toldOfEnd(x.ID, job.EndWorkerLost)
				gbtest.Eventually(t, "no container is left", func() bool { return len(g.containers()) == 0 })
			})
		})
	}
}

// TestKillAPIAtExecution: an api that dies as it has accepted an execution, or delivered its result. Whoever asks again with the same key is
// answered with the same one.
func TestKillAPIAtExecution(t *testing.T) {
	t.Parallel()
	for _, step := range []string{failpoint.RecordCreated, failpoint.DeliverySent} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			g := start(t, options{})
			x := g.startSession()
			g.api.Kill()
			doomed := g.startAPI(g.failpoint("kill", step))
			accepted := make(chan string, 1)
			go func() {
				j, err := g.client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: counts, IdempotencyKey: "once", Callback: &job.Callback{URL: g.hook.url}})
				if err != nil { // the client bears with an api that is away
					t.Errorf("execute: %v", err)
				}
				accepted <- j.ID
			}()
			diesByItself(t, doomed)
			g.startAPI()
			id := <-accepted
			if r := g.wait(id); r.Status != job.Succeeded || r.Stdout != "1\n" {
				t.Errorf("got %+v", r)
			}
			if r := g.executedIn(x.ID, "print(x)"); r.Stdout != "1\n" {
				t.Errorf("got %+v, want that it was executed once", r)
			}
			g.toldOnce(id)
		})
	}
}

// TestKillDelivererAtExecution: of two apis, that which is about to post an execution's result, or has just posted it, dies. The other one posts it under the same id, and goes on serving:
// the session keeps its state.
func TestKillDelivererAtExecution(t *testing.T) {
	t.Parallel()
	for _, step := range []string{failpoint.DeliveryTaken, failpoint.DeliverySent} {
		t.Run(step, func(t *testing.T) {
			if testing.Short() && step == failpoint.DeliveryTaken {
				t.Skip("make test-long runs this: it waits for a lease")
			}
			t.Parallel()
			g := start(t, options{})
			x := g.startSession()
			g.api.Kill()
			first := g.startAPI(g.failpoint("kill", step))
			addr := gbtest.Addr(t)
			second := gbtest.Start(t, []string{binary(t, "glovebox"), "api"}, g.apiEnv(addr, g.failpoint("kill", step)), func() bool { return status(t, "http://"+addr+"/readyz") == http.StatusOK })
			id := g.executeFor(x.ID, counts)
			select {
			case <-first.Done():
				g.url, g.addr = "http://"+addr, addr
				client, err := producer.New(g.url, g.token)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { client.Close() })
				g.client = client
			case <-second.Done():
			case <-time.After(patience):
				t.Fatal("no api died")
			}
			if r := g.wait(id); r.Status != job.Succeeded || r.Stdout != "1\n" {
				t.Errorf("got %+v", r)
			}
			g.toldOnce(id)
			if r := g.executedIn(x.ID, "print(x)"); r.Stdout != "1\n" || r.Session.Generation != 1 {
				t.Errorf("got %+v, want that it was executed once", r)
			}
			if _, err := g.client.EndSession(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
			g.sessionEnds(x.ID, job.EndDeleted)
		})
	}
}

// startSession begins a session of Python.
func (g *glovebox) startSession() job.Session {
	g.tb.Helper()
	return g.startSessionWith(job.SessionSettings{})
}

// startSessionWith begins one with more settings.
func (g *glovebox) startSessionWith(s job.SessionSettings) job.Session {
	g.tb.Helper()
	s.Runtime, s.Limits = "python", job.Limits{WallMS: 60_000}
	x, err := g.client.StartSession(g.tb.Context(), s)
	if err != nil {
		g.tb.Fatal(err)
	}
	return x
}

// executeFor executes code whose result is posted.
func (g *glovebox) executeFor(session, code string) string {
	g.tb.Helper()
	j, err := g.client.ExecuteInSession(g.tb.Context(), session, job.SessionExecution{Code: code, Callback: &job.Callback{URL: g.hook.url}})
	if err != nil {
		g.tb.Fatal(err)
	}
	return j.ID
}

// toldOnce waits until the receiver has the result of the execution: under one id, and the one that the api shows.
func (g *glovebox) toldOnce(id string) {
	g.tb.Helper()
	r := g.wait(id)
	gbtest.Eventually(g.tb, "the result is posted", func() bool { return len(g.toldOf(id)) > 0 })
	told := g.toldOf(id)
	for _, m := range told {
		if m.ID != told[0].ID || m.Result.Status != r.Status || m.Result.Stdout != r.Stdout {
			g.tb.Errorf("got message %s with %s %q, want only %s with %s %q", m.ID, m.Result.Status, m.Result.Stdout, told[0].ID, r.Status, r.Stdout)
		}
	}
}

// toldOfEnd waits until the receiver knows that the session has ended, and why, by a message of one id.
func (g *glovebox) toldOfEnd(session, reason string) {
	g.tb.Helper()
	told := func() (list []message) {
		g.hook.mu.Lock()
		defer g.hook.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(g.hook.got), func(m message) bool { return m.Session.ID != session })
	}
	gbtest.Eventually(g.tb, "the session's end is posted", func() bool { return len(told()) > 0 })
	for _, m := range told() {
		if m.ID != told()[0].ID || m.Session.End == nil || m.Session.End.Reason != reason {
			g.tb.Errorf("got message %s of the session's end %+v, want only %s, and %s", m.ID, m.Session.End, told()[0].ID, reason)
		}
	}
}

// toldOf are the messages about a job.
func (g *glovebox) toldOf(id string) []message {
	g.hook.mu.Lock()
	defer g.hook.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.hook.got), func(m message) bool { return m.Result.ID != id })
}
