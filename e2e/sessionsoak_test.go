package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessionSoak opens and ends sessions in a row, four at once, on one worker that nobody restarts: nothing is left of them, and from a
// tenth of them on nothing grows. Some end their interpreter before, some are ended while they execute.
//
// GLOVEBOX_SOAK_SESSIONS is how many (8, or 1000 with `make soak-sessions`).
func TestSessionSoak(t *testing.T) {
	t.Parallel()
	const atOnce = 4
	n := gbtest.Number(t, "GLOVEBOX_SOAK_SESSIONS", 2*atOnce)
	g := start(t, options{workerEnv: []string{"GLOVEBOX_CONCURRENCY=4", "GLOVEBOX_WARM=1", "GLOVEBOX_PRELOAD=0"}})
	g.mostWarm = kinds(t)
	var figures []soakFigures
	step := max(n/10, atOnce)
	for from := 0; from < n; from += step {
		turns := make(chan int)
		var running sync.WaitGroup
		for range atOnce {
			running.Go(func() {
				for i := range turns {
					g.oneSession(i)
				}
			})
		}
		for i := from; i < min(from+step, n); i++ {
			turns <- i
		}
		close(turns)
		running.Wait()
		figures = append(figures, g.soakFigures(min(from+step, n)))
		t.Log(strings.Replace(figures[len(figures)-1].String(), "jobs:", "sessions:", 1))
	}
	for o := (producer.SessionListOptions{Limit: producer.MaxPage}); ; {
		page, err := g.client.ListSessions(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Sessions {
			if x.End == nil || x.End.Reason != job.EndDeleted {
				t.Errorf("got %+v, want that it was deleted", x)
			}
		}
		if o.Cursor = page.Next; o.Cursor == "" {
			break
		}
	}
	g.worker.Stop()
	if c := g.ours(); len(c) > 0 {
		t.Errorf("a worker that ended has left %v", c)
	}
	flat(t, figures)
}

// oneSession is a session's life.
func (g *glovebox) oneSession(i int) {
	ctx := g.tb.Context()
	x, err := g.client.StartSession(ctx, job.SessionSettings{Runtime: []string{"python", "node"}[i%2], Limits: job.Limits{WallMS: 60_000}})
	if err != nil {
		g.tb.Error(err)
		return
	}
	execute := func(code string, might ...job.Status) {
		j, err := g.client.ExecuteInSession(ctx, x.ID, job.SessionExecution{Code: code})
		if err == nil && len(might) > 0 {
			j, err = g.client.Wait(ctx, j.ID)
		}
		if err != nil || len(might) > 0 && !slices.Contains(might, j.Result.Status) {
			g.tb.Errorf("session %d: %q: %+v, %v, want %v", i, code, j, err, might)
		}
	}
	execute("1 + 1", job.Succeeded)
	switch i % 5 {
	case 0: // the interpreter is lost
		execute([]string{"import os; os._exit(1)", "process.exit(1)"}[i%2], job.Failed)
		execute("1 + 1", job.Succeeded)
	case 1: // it has what it keeps
		execute([]string{"x = bytearray(20 << 20); open('file', 'w').write('x' * 100000)", "let x = Buffer.alloc(20 << 20); require('fs').writeFileSync('file', 'x')"}[i%2], job.Succeeded)
	case 2: // it is ended while it executes
		execute([]string{"while True: pass", "while (true);"}[i%2])
	case 3: // and while others wait
		for range 3 {
			execute([]string{"import time; time.sleep(1)", "await new Promise((r) => setTimeout(r, 1000))"}[i%2])
		}
	}
	if _, err := g.client.EndSession(ctx, x.ID); err != nil {
		g.tb.Errorf("session %d: %v", i, err)
	}
}
