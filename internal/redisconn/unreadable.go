package redisconn

import (
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/await"
)

// Any worker may write much of what is in Redis, and one that was taken over anything
// (docs/adr/0027-roles.md). So what can't be read is passed over, or counted anew: the work of all
// must not stand still until somebody finds a value and deletes it.

// Unreadable logs now and then which values were passed over.
type Unreadable struct {
	Log *slog.Logger

	mu   sync.Mutex
	said map[string]*await.Rarely
}

// PassOver says that something of that kind can't be read. Kinds are few: each is remembered.
func (u *Unreadable) PassOver(kind string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said == nil {
		u.said = map[string]*await.Rarely{}
	}
	if u.said[kind] == nil {
		u.said[kind] = &await.Rarely{}
	}
	if u.said[kind].Now() {
		u.Log.Warn("passed over what can't be read", "kind", kind, "error", err)
	}
}

// WrongType reports that a key holds something else than what Glovebox keeps there.
func WrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }
