package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// errNoRoom gives a session's task back.
var errNoRoom = errors.New("this worker has no memory for another session")

const (
	// leastPatience is how long a new session waits in line for memory before its task goes back: another worker may have room.
	leastPatience = time.Second
	// mostPatience is how long one waits that is old: what needs less is behind it, and must not pass it for ever.
	mostPatience = 5 * time.Minute
)

// roomPatience is how long a session waits in line that is so old.
func roomPatience(age time.Duration) time.Duration { return min(max(age, leastPatience), mostPatience) }

// waitForRoom takes so many MiB for a session's life. Where they are not free it waits in line, as jobs do: who only tries gets nothing as
// long as anybody waits. It fails with errNoRoom.
func (w *Worker) waitForRoom(life context.Context, x record.Session, mb int64) (release func(), err error) {
	if w.sessions.jobsAreFirst() {
		return nil, errNoRoom
	}
	if release, ok := w.tryReserveSession(mb); ok {
		return release, nil
	}
	ctx, cancel := context.WithTimeout(life, roomPatience(time.Since(x.Created)))
	var looks sync.WaitGroup
	defer looks.Wait()
	defer cancel()
	looks.Go(func() { // whether anybody wants it still
		again := time.NewTicker(lookInterval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.draining:
				cancel()
				return
			case <-again.C:
			}
			if now, err := w.Records.GetSession(ctx, x.ID); errors.Is(err, job.ErrNoSession) || err == nil && (now.State == job.SessionEnded || now.Worker != "") {
				cancel()
			}
		}
	})
	return w.reserveSession(ctx, mb)
}

// reserveSession waits for so many MiB of what sessions may hold, and of the worker's budget.
func (w *Worker) reserveSession(ctx context.Context, mb int64) (release func(), err error) {
	share := min(mb, w.sessions.most) // one above it is alone
	if err := w.sessions.memory.acquire(ctx, share); err != nil {
		return nil, errNoRoom
	}
	releaseMemory, err := w.acquire(ctx, mb)
	if err != nil {
		w.sessions.memory.release(share)
		return nil, errNoRoom
	}
	return w.sessions.holds(mb, share, releaseMemory), nil
}

// tryReserveSession is reserveSession of what is free.
func (w *Worker) tryReserveSession(mb int64) (release func(), ok bool) {
	share := min(mb, w.sessions.most)
	if !w.sessions.memory.tryAcquire(share) {
		return nil, false
	}
	releaseMemory, ok := w.tryAcquire(mb)
	if !ok {
		w.sessions.memory.release(share)
		return nil, false
	}
	return w.sessions.holds(mb, share, releaseMemory), true
}
