package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// maxSessions is how many sessions a worker holds at once; its memory decides before.
const maxSessions = 64

// sessionConsumer takes sessions from the queues of the runtimes that have them, while it is started.
type sessionConsumer struct {
	consumer
	memory *budget // of the worker's, what sessions may hold
	most   int64
	held   atomic.Int64 // of the worker's budget, by sessions that are not paused, MiB; one above most has more than that
	// jobsFirst is until when no new session gets memory, Unix time in ns.
	jobsFirst atomic.Int64
	turns     *turnSlots
	slots     chan struct{} // one for each session that is held
	pauser    *pauser

	mu     sync.Mutex
	queues map[string]int
	wanted bool // to be started, as soon as there is a queue
}

func (w *Worker) newSessionConsumer(life context.Context) *sessionConsumer {
	slots := make(chan struct{}, maxSessions)
	// Half of the budget, so that there is always room for jobs.
	c := &sessionConsumer{most: max(w.MemoryMB/2, 1), turns: newTurnSlots(w.Concurrency), slots: slots}
	c.memory = newBudget(c.most)
	c.pauser = &pauser{after: w.PauseAfter, missing: func() int64 { return max(c.memory.missing(), w.memory.missing()) }}
	c.memory.onShort, w.memory.onShort = c.pauser.memoryShort, c.pauser.memoryShort
	c.server = func() *queue.Server {
		return w.Records.Queue.Server(queue.ServerConfig(maxSessions, c.queues, w.Poll, w.Log), slots)
	}
	c.handle = func(_ context.Context, t *asynq.Task) error { return w.handleSession(life, t, func() { <-slots }) }
	return c
}

// takeSlot takes the place of a session, if one is free.
func (c *sessionConsumer) takeSlot() bool {
	select {
	case c.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *sessionConsumer) giveSlot() { <-c.slots }

// start takes sessions from now on, if any runtime has them.
func (c *sessionConsumer) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted = true; len(c.queues) == 0 {
		return nil
	}
	return c.consumer.start()
}

func (c *sessionConsumer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
	c.consumer.stop()
}

// serve takes sessions from these queues, once it is started.
func (c *sessionConsumer) serve(queues map[string]int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.Equal(queues, c.queues) {
		return nil
	}
	c.consumer.stop()
	c.queues = queues
	if !c.wanted || len(queues) == 0 {
		return nil
	}
	return c.consumer.start()
}

// hasSessions reports whether this worker holds sessions of the runtime: only in gVisor, as no session accepts less.
func (w *Worker) hasSessions(r runtimes.Runtime) bool {
	return w.Isolation == job.GVisor && len(r.Session) > 0
}

// languages are those that contexts of the runtime's sessions can have.
func (w *Worker) languages(r runtimes.Runtime) []string {
	if !w.hasSessions(r) {
		return nil
	}
	return r.Languages()
}

// handleSession is what asynq calls: it has this worker hold a session. It returns an error when the task should come back.
func (w *Worker) handleSession(life context.Context, t *asynq.Task, giveSlot func()) (err error) {
	held := false
	defer func() {
		if !held {
			giveSlot()
		}
	}()
	var run queue.Run
	if err := json.Unmarshal(t.Payload(), &run); err != nil {
		w.Log.Error("task dropped: not a session", "error", err)
		return nil
	}
	x, err := w.Records.GetSession(life, run.ID)
	switch {
	case errors.Is(err, job.ErrNoSession), err == nil && (x.ForkOf != "" || x.State == job.SessionEnded || x.Worker != "" && x.Worker != w.ID):
		return nil
	case err != nil:
		return err
	}
	if !w.Labels.Serves(x.Settings.Placement, w.Only) { // its queue says so, which any worker may fill
		return fmt.Errorf("this worker has not the labels of placement %q", x.Settings.Placement)
	}
	runtime, ok := w.Runtimes.Lookup(x.Settings.Runtime)
	if !ok || !w.hasSessions(runtime) {
		return fmt.Errorf("this worker has no sessions of runtime %q", x.Settings.Runtime)
	}
	limits := sessionLimits(x, runtime)
	mb := limits.SandboxMB() + sandbox.CostMB(limits)
	if runtime.Preload != nil && runtime.Preload.Session {
		mb += runtime.Preload.MemoryMB // which the interpreter may hold besides, for as long as it lives
	}
	mb = min(mb, w.MemoryMB)
	release, err := w.waitForRoom(life, x, mb)
	if err != nil {
		return err
	}
	defer func() {
		if !held {
			release()
		}
	}()
	if err := w.beginRun(run); errors.Is(err, errRunning) && x.Worker == w.ID {
		return nil // the same task was delivered twice
	} else if err != nil { // also errRunning: this worker has given the session back, and is not done with it
		return err
	}
	// Whether the claim came to pass is not known where its answer got lost, and the beats name the session as long as it is asked again.
	var unreadable error
	err = w.persist(life, run.ID, func(ctx context.Context) (err error) {
		claim := w.Records.ClaimSession
		if w.PauseAfter > 0 {
			claim = w.Records.ClaimForkable
		}
		if x, err = claim(ctx, run.ID, w.ID); x.ID != "" {
			unreadable, err = err, nil
		}
		return err
	})
	if err = errors.Join(err, unreadable); err != nil {
		w.endRun(run)
		if lost(err) {
			return nil
		}
		return err
	}
	held = true
	go func() { // not asynq's: its handlers are for what ends soon
		defer giveSlot()
		defer w.endRun(run)
		failpoint.Hit(failpoint.SessionClaimed)
		w.holdSession(life, x, runtime, mb, release)
	}()
	return nil
}

// sessionLimits are those of the session's sandbox.
func sessionLimits(x record.Session, runtime runtimes.Runtime) job.Limits {
	return x.Settings.Limits.Filled(runtime.Limits).WithoutCompile()
}
