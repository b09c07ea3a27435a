package record

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/job"
)

// Any worker may write much of what is in Redis, and one that was taken over anything
// (docs/adr/0027-roles.md). So what can't be read is passed over, or counted anew: the work of all
// must not stand still until somebody finds a value and deletes it.

// odd says now and then what was passed over.
type odd struct {
	mu   sync.Mutex
	said map[string]*await.Rarely
}

// passOver says that something of that kind can't be read. Kinds are few: each is remembered.
func (s *Store) passOver(kind string, err error) {
	s.odd.mu.Lock()
	defer s.odd.mu.Unlock()
	if s.odd.said == nil {
		s.odd.said = map[string]*await.Rarely{}
	}
	if s.odd.said[kind] == nil {
		s.odd.said[kind] = &await.Rarely{}
	}
	if s.odd.said[kind].Now() {
		s.log.Warn("passed over what can't be read", "kind", kind, "error", err)
	}
}

// wrongType reports that a key holds something else than what Glovebox keeps there.
func wrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// ofTenant reports whether that is the id of a job of the tenant.
func ofTenant(id, tenant string) bool {
	of, ok := job.TenantOf(id)
	return ok && of == tenant
}

// sum is a counter of bytes, as lua/shared/bytes.lua counts: 0 where there is none, or no number.
func (s *Store) sum(answer *redis.StringCmd) (int64, error) {
	n, err := answer.Int64()
	var noNumber *strconv.NumError
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case wrongType(err), errors.As(err, &noNumber):
		s.passOver("a counter", err)
		return 0, nil
	}
	return n, err
}

// publish writes into a hash in which all workers say something, in the place of what is no hash.
func (s *Store) publish(ctx context.Context, key string, fields ...any) error {
	err := s.rdb.HSet(ctx, key, fields...).Err()
	if wrongType(err) {
		if err = s.rdb.Del(ctx, key).Err(); err == nil {
			err = s.rdb.HSet(ctx, key, fields...).Err()
		}
	}
	return err
}

// published reads such a hash.
func (s *Store) published(ctx context.Context, key string) (map[string]string, error) {
	f, err := s.rdb.HGetAll(ctx, key).Result()
	if wrongType(err) {
		s.passOver(key, err)
		return nil, nil
	}
	return f, err
}

// mostAhead is how far the clock of a worker's host may be ahead of ours. What says that it was seen
// later would count longer than it may, and be the newest for ever.
const mostAhead = time.Hour

// seen reports whether that may be when a worker said something.
func (s *Store) seen(at time.Time) bool { return at.Sub(s.now()) < mostAhead }
