package record

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// While a backup is made, what a record named when it began has to stay in the bucket: the
// records are of one moment, the objects are read after it (docs/adr/0044-backup.md).

const (
	// backupKey is there while a backup is made.
	backupKey = "gb:backup"
	holdLife  = time.Minute
	holdRenew = 10 * time.Second
)

// ErrHoldLost means that objects may have been deleted before a backup had them.
var ErrHoldLost = errors.New("the hold on deletions in the bucket was lost meanwhile")

// Hold keeps every api from deleting what records named.
type Hold struct {
	rdb   redis.UniversalClient
	token string
	stop  context.CancelFunc
	lost  context.CancelCauseFunc
	done  sync.WaitGroup
}

// renewHold keeps the key, or deletes it, where it has the holder's token.
var renewHold = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// TakeHold holds deletions until [Hold.Release]. What is deleted already when it returns is named by
// no record any more. The context that it returns ends with [ErrHoldLost] once the hold can't be
// kept. There is one hold at a time.
func TakeHold(ctx context.Context, rdb redis.UniversalClient) (*Hold, context.Context, error) {
	h := &Hold{rdb: rdb, token: rand.Text()}
	taken, err := rdb.SetNX(ctx, backupKey, h.token, holdLife).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("hold deletions in the bucket: %w", err)
	}
	if !taken {
		return nil, nil, fmt.Errorf("another backup is being made, or one ended badly less than %s ago", holdLife)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, lost := context.WithCancelCause(ctx)
	h.stop, h.lost = stop, lost
	h.done.Go(func() { h.keep(renewing) })
	return h, held, nil
}

// keep renews the hold until ctx ends. Until it would have lapsed, a Redis that is away is asked again.
func (h *Hold) keep(ctx context.Context) {
	tick := time.NewTicker(holdRenew)
	defer tick.Stop()
	good := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		kept, err := renewHold.Run(ctx, h.rdb, []string{backupKey}, h.token, holdLife.Milliseconds()).Int()
		switch {
		case err == nil && kept == 1:
			good = asked
		case err == nil || time.Since(good) > holdLife-holdRenew:
			h.lost(ErrHoldLost)
			return
		}
	}
}

// Release ends the hold. It fails with [ErrHoldLost] where there was none any more.
func (h *Hold) Release(ctx context.Context) error {
	h.stop()
	h.done.Wait()
	h.lost(nil)
	held, err := renewHold.Run(ctx, h.rdb, []string{backupKey}, h.token, 0).Int()
	if err != nil {
		return fmt.Errorf("release deletions in the bucket: %w", err)
	}
	if held == 0 {
		return ErrHoldLost
	}
	return nil
}

// Held reports whether a backup is being made. A caller that deletes objects asks after it has read
// that no record names them, and leaves them where there is a hold: a hold that is taken later is
// of a backup that doesn't have their names.
func (s *Store) Held(ctx context.Context) (bool, error) {
	n, err := s.rdb.Exists(ctx, backupKey).Result()
	if err != nil {
		return false, fmt.Errorf("ask whether a backup is being made: %w", err)
	}
	return n > 0, nil
}
