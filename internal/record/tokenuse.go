package record

import (
	"context"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

const (
	// useInterval is how often a process writes down that a token is used.
	useInterval = time.Minute
	// maxUses bounds what is remembered of it.
	maxUses = 100_000
)

// tokenUses remembers when the use of tokens was written down last, by this process.
type tokenUses struct {
	mu      sync.Mutex
	written map[string]time.Time // by tenant and id
	writing sync.WaitGroup
}

// due reports whether it is time to write again, and takes it as done.
func (u *tokenUses) due(name string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at, ok := u.written[name]; ok && now.Sub(at) < useInterval {
		return false
	}
	if u.written == nil || len(u.written) >= maxUses {
		u.written = map[string]time.Time{}
	}
	u.written[name] = now
	u.writing.Add(1)
	return true
}

// NoteUse writes down that a token was used, at most once a minute, and without anybody
// waiting for it: what can't be written is lost until it is used again.
func (s *Store) NoteUse(tenant, id string) {
	now := s.now()
	name := tenant + " " + id
	if !s.uses.due(name, now) {
		return
	}
	go func() {
		defer s.uses.writing.Done()
		ctx, cancel := context.WithTimeout(context.Background(), redisconn.CallTimeout)
		defer cancel()
		if err := s.rdb.HSet(ctx, tokenUseKey(tenant), id, ms(now)).Err(); err != nil {
			s.log.Warn("the use of a token was not noted", "tenant", tenant, "token_id", id, "error", err)
			s.uses.mu.Lock()
			defer s.uses.mu.Unlock()
			delete(s.uses.written, name)
		}
	}()
}
