package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestPipelineChaos kills api, worker, Redis and Podman's service while pipelines run that pushes have started. Each run
// ends as it would have without that, with one message, and no step is lost or made twice.
//
// GLOVEBOX_CHAOS_PIPELINES is how many run (2).
func TestPipelineChaos(t *testing.T) {
	t.Parallel()
	n := gbtest.Number(t, "GLOVEBOX_CHAOS_PIPELINES", 2)
	const commits = 5
	g := start(t, options{apiEnv: []string{"GLOVEBOX_WEBHOOK_SCHEDULE=0s,1s,1s,2s,2s,4s,4s,8s,8s,8s,8s,8s"}})
	hook := g.pushHook()
	killing, stop := context.WithCancel(t.Context())
	defer stop()
	kills := 0
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		kills = killInTurn(killing, 5*n, g.api, g.worker, g.api, g.redis, g.podman)
	}()
	runs := map[string]bool{}
	for i := range n {
		said := g.pushed(hook, fmt.Sprint("push ", i), push(t, fmt.Sprint(i), commits))
		if runs[said.RunID] || said.RunID == "" {
			t.Errorf("got %+v, want another run", said)
		}
		runs[said.RunID] = true
	}
	told := map[string][]string{}
	allTold := func() bool {
		g.hook.mu.Lock()
		defer g.hook.mu.Unlock()
		clear(told)
		for _, m := range g.hook.got {
			if !slices.Contains(told[m.Run.ID], m.ID) {
				told[m.Run.ID] = append(told[m.Run.ID], m.ID)
			}
		}
		return len(told) == n
	}
	look := time.Tick(100 * time.Millisecond)
	for waiting := true; waiting; { // the time of kills is not that of the test's patience
		select {
		case <-killed:
			waiting = false
		case <-look:
			if allTold() {
				stop()
			}
		}
	}
	for !allTold() { // how long all take together is the machine's: what must not be is that nothing goes on
		before := len(told)
		gbtest.Eventually(t, fmt.Sprintf("another run is told of, beside %d of %d", before, n), func() bool { return allTold() || len(told) > before })
	}
	t.Logf("%d kills while %d pipelines ran", kills, n)
	want := map[string]int{"branch": 1, "count": commits, "table": 1, "chart": 1, "warn": 0}
	made := 0
	for id := range runs {
		run := awaited(t, "the run is read", func() (job.Run, error) { return g.client.GetRun(t.Context(), id) })
		for name, step := range run.Steps {
			if step.Count != want[name] || step.Succeeded != want[name] {
				t.Errorf("run %s: step %s: got %+v, want %d jobs", id, name, step, want[name])
			}
			for _, j := range step.Jobs {
				made += j.Try
			}
		}
		if len(told[id]) != 1 {
			t.Errorf("run %s: got messages %v, want one", id, told[id])
		}
		g.checkPush(run, commits)
	}
	jobs := 0
	for o := (producer.ListOptions{Limit: producer.MaxPage}); ; {
		page := awaited(t, "jobs are listed", func() (producer.JobPage, error) { return g.client.List(t.Context(), o) })
		jobs += len(page.Jobs)
		if o.Cursor = page.Next; o.Cursor == "" {
			break
		}
	}
	if jobs != made {
		t.Errorf("there are %d jobs, and the runs have made %d", jobs, made)
	}
}

// killer is what can be killed, and comes back.
type killer interface {
	Kill()
	Restart()
}

// killInTurn kills one after the other, anywhere within a step, until the context ends or it has made so many kills, and returns how many it has made. More
// would only cost time: each kill of a worker costs its jobs half a minute.
func killInTurn(ctx context.Context, most int, victims ...killer) (kills int) {
	r := rand.New(rand.NewPCG(1, 2))
	for ; kills < most; kills++ {
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(time.Duration(1+r.IntN(3)) * time.Second):
		}
		victim := victims[kills%len(victims)]
		victim.Kill()
		victim.Restart()
	}
	return kills
}

// awaited is what get answers once it can.
func awaited[T any](t *testing.T, what string, get func() (T, error)) (v T) {
	t.Helper()
	gbtest.Eventually(t, what, func() bool {
		var err error
		v, err = get()
		return err == nil
	})
	return v
}
