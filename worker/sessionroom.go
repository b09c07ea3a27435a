package worker

import (
	"context"
	"errors"
	"fmt"
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
	if err := w.sessions.memory.Acquire(ctx, mb); err != nil {
		return nil, errNoRoom
	}
	releaseMemory, err := w.acquire(ctx, mb)
	if err != nil {
		w.sessions.memory.Release(mb)
		return nil, errNoRoom
	}
	return func() { releaseMemory(); w.sessions.memory.Release(mb) }, nil
}

// tryReserveSession is reserveSession of what is free.
func (w *Worker) tryReserveSession(mb int64) (release func(), ok bool) {
	if !w.sessions.memory.TryAcquire(mb) {
		return nil, false
	}
	releaseMemory, ok := w.tryAcquire(mb)
	if !ok {
		w.sessions.memory.Release(mb)
		return nil, false
	}
	return func() { releaseMemory(); w.sessions.memory.Release(mb) }, true
}

// tooLarge is for a session of so many MiB, more than this worker gives to all sessions: another worker has it, or it ends.
func (w *Worker) tooLarge(life context.Context, x record.Session, mb int64) error {
	most, err := w.Records.Fleet.MostSessionMB(life)
	if err != nil {
		return err
	}
	if most = max(most, w.sessions.most); most >= mb {
		return errNoRoom
	}
	err = w.Records.EndSession(life, x.ID, "", job.SessionEnd{
		Reason:  job.EndFailed,
		Message: fmt.Sprintf("its sandbox needs %d MiB with what it takes besides memory_mb, and no worker has more than %d for sessions", mb, most),
	})
	if errors.Is(err, job.ErrSessionEnded) || errors.Is(err, job.ErrNoSession) {
		return nil
	}
	return err
}
