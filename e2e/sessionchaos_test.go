package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessionChaos kills api, worker, Redis and Podman's service while sessions execute. Each execution that was accepted ends once, with one
// message: as it would have, or with the reason why it was lost. None is executed twice, and a session that is lost says so.
//
// GLOVEBOX_CHAOS_SESSIONS is how many there are at least (3); each adds two kills. GLOVEBOX_CHAOS_EXECUTIONS is how many executions each makes (4).
func TestSessionChaos(t *testing.T) {
	t.Parallel()
	c := sessionChaos{
		g:          start(t, options{apiEnv: []string{"GLOVEBOX_WEBHOOK_SCHEDULE=0s,1s,1s,2s,2s,4s,4s,8s,8s,8s,8s,8s"}}),
		executions: gbtest.Number(t, "GLOVEBOX_CHAOS_EXECUTIONS", 4),
		statuses:   map[string]int{}, ends: map[string]int{},
	}
	n := gbtest.Number(t, "GLOVEBOX_CHAOS_SESSIONS", 3)
	// An api finds a worker lost that it has not heard of for half a minute: one of them lives for as long.
	beside := gbtest.Addr(t)
	gbtest.Start(t, []string{binary(t, "glovebox"), "api"}, c.g.apiEnv(beside), func() bool { return status(t, "http://"+beside+"/readyz") == http.StatusOK })
	kills, killed := 0, make(chan struct{})
	go func() {
		defer close(killed)
		kills = killInTurn(t.Context(), 2*n, c.g.api, c.g.redis, c.g.podman, c.g.worker)
	}()
	numbers := make(chan int)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for i := range numbers {
				c.session(t, i)
			}
		})
	}
	sessions := 0
	for over := false; sessions < n || !over; sessions++ { // quick ones would be over before anything is killed
		numbers <- sessions
		select {
		case <-killed:
			over = true
		default:
		}
	}
	close(numbers)
	running.Wait()
	<-killed
	t.Logf("%d kills while %d sessions were to make %d executions each: %v; sessions ended: %v", kills, sessions, c.executions, c.statuses, c.ends)
	for _, id := range c.accepted {
		c.g.toldOnce(id)
	}
}

type sessionChaos struct {
	g          *glovebox
	executions int

	mu             sync.Mutex
	statuses, ends map[string]int
	accepted       []string
}

// session makes the executions of a session. Should that be lost, it goes on in another.
func (c *sessionChaos) session(t *testing.T, i int) {
	t.Helper()
	for made, tries := 0, 0; made < c.executions; tries++ {
		x := awaited(t, "a session begins", func() (job.Session, error) {
			return c.g.client.StartSession(t.Context(), job.SessionSettings{
				Runtime: "python", Limits: job.Limits{WallMS: 60_000, MemoryMB: 128}, IdempotencyKey: fmt.Sprint(i, " ", tries),
			})
		})
		lost := false
		for held := 0; made < c.executions && !lost; made++ {
			held++
			lost = !c.execute(t, x.ID, made, held)
		}
		c.end(t, x.ID, lost)
	}
}

// execute makes one execution, after which its session holds so many, and reports whether that lives on.
func (c *sessionChaos) execute(t *testing.T, session string, number, held int) bool {
	t.Helper()
	refused := false
	j := awaited(t, "an execution is accepted", func() (producer.Job, error) {
		accepted, err := c.g.client.ExecuteInSession(t.Context(), session, job.SessionExecution{
			Code:           fmt.Sprintf("made = globals().get('made', []) + [%d]; print(len(made), flush=True); n = open('made.txt', 'w').write(str(made)); import time; time.sleep(0.2)", number),
			IdempotencyKey: fmt.Sprint(number), Callback: &job.Callback{URL: c.g.hook.url},
		})
		refused = job.CodeOf(err) == job.CodeSessionEnded
		if refused {
			return accepted, nil
		}
		return accepted, err
	})
	if refused {
		c.count(c.statuses, "refused: session_ended")
		return false
	}
	r := c.result(t, j.ID)
	what := string(r.Status)
	if r.Error != nil {
		what += ": " + r.Error.Code
	}
	c.count(c.statuses, what)
	c.mu.Lock()
	c.accepted = append(c.accepted, j.ID)
	c.mu.Unlock()
	switch what {
	case "succeeded":
		if r.Stdout != fmt.Sprintln(held) || len(r.Artifacts) != 1 || r.Session.State != job.StateKept || r.Session.Sequence != int64(held) {
			t.Errorf("session %s: got %+v, want execution %d", session, r, held)
		}
		return true
	case "internal_error: " + job.CodeSessionLost, "canceled: " + job.CodeSessionEnded:
		return false
	}
	t.Errorf("session %s: got %+v, want that it succeeded, or was lost with its session", session, r)
	return false
}

// result waits for it, for as long as kills may hold it up.
func (c *sessionChaos) result(t *testing.T, id string) job.Result {
	t.Helper()
	return awaited(t, "an execution has ended", func() (job.Result, error) {
		waiting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		j, err := c.g.client.Wait(waiting, id)
		if err != nil {
			return job.Result{}, err
		}
		return *j.Result, nil
	})
}

// end ends a session that lives, and looks at why it has ended.
func (c *sessionChaos) end(t *testing.T, id string, lost bool) {
	t.Helper()
	if !lost {
		awaited(t, "the session is ended", func() (job.Session, error) { return c.g.client.EndSession(t.Context(), id) })
	}
	x := awaited(t, "the session is shown", func() (job.Session, error) {
		x, err := c.g.client.Session(t.Context(), id)
		if err == nil && x.End == nil {
			err = fmt.Errorf("it is %s", x.Status)
		}
		return x, err
	})
	c.count(c.ends, x.End.Reason)
	if told := map[bool][]string{true: {job.EndWorkerLost, job.EndFailed}, false: {job.EndDeleted, job.EndWorkerLost, job.EndFailed}}[lost]; !slices.Contains(told, x.End.Reason) || x.End.Message == "" {
		t.Errorf("session %s ended as %+v, want one of %v", id, x.End, told)
	}
}

func (c *sessionChaos) count(counts map[string]int, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts[what]++
}
