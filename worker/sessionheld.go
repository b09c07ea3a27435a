package worker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errHeld gives a job back.
var errHeld = errors.New("this worker's sessions hold the memory that the job needs")

const (
	// pausePatience is how long a job waits in line for idle sessions to be paused: each has to be idle for leastIdle, and is then written to the disk.
	pausePatience = 15 * time.Second
	// heldDelay is when a job is tried again whose memory sessions held: they may live for 90 minutes, but most end sooner.
	heldDelay = 15 * time.Second
	// reachInterval is how often is looked whether sessions hold too much for a job that waits.
	reachInterval = time.Second
)

// holds notes that a session has so many MiB of the worker's budget, and that share of what sessions may hold. release gives both back.
func (c *sessionConsumer) holds(mb, share int64, releaseMemory func()) (release func()) {
	c.held.Add(mb)
	return func() { c.held.Add(-mb); releaseMemory(); c.memory.release(share) }
}

// letJobsFirst has no new session get memory for a while: a job has waited for so long that it is to get what others give back. It comes back
// later than heldDelay, behind those that wait, or to another worker.
func (c *sessionConsumer) letJobsFirst() { c.jobsFirst.Store(time.Now().Add(mostPatience).UnixNano()) }

func (c *sessionConsumer) jobsAreFirst() bool { return time.Now().UnixNano() < c.jobsFirst.Load() }

// whileInReach ends the context with errHeld where no end of a job can free so many MiB, as sessions hold too much. All behind it in line would
// wait for the end of a session, with the memory that they need free. Where the pause of idle ones can free it, that is waited for.
func (w *Worker) whileInReach(ctx context.Context, mb int64) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	lacks := func() int64 { return mb - (w.MemoryMB - w.sessions.held.Load()) }
	hopeless := func() bool { return lacks() > w.sessions.pauser.idleMB() }
	if lacks() > 0 && hopeless() {
		cancel(errHeld)
		return ctx, func() {}
	}
	var looks sync.WaitGroup
	looks.Go(func() {
		again := time.NewTicker(reachInterval)
		defer again.Stop()
		inReach := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
			if lacks() <= 0 {
				inReach = time.Now()
			} else if hopeless() || time.Since(inReach) >= pausePatience {
				cancel(errHeld)
			}
		}
	})
	return ctx, func() { cancel(nil); looks.Wait() }
}
