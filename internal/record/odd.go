package record

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

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
	case redisconn.WrongType(err), errors.As(err, &noNumber):
		s.unreadable.PassOver("a counter", err)
		return 0, nil
	}
	return n, err
}

// publish writes into a hash in which all workers say something, in the place of what is no hash.
func (s *Store) publish(ctx context.Context, key string, fields ...any) error {
	err := s.rdb.HSet(ctx, key, fields...).Err()
	if redisconn.WrongType(err) {
		if err = s.rdb.Del(ctx, key).Err(); err == nil {
			err = s.rdb.HSet(ctx, key, fields...).Err()
		}
	}
	return err
}

// published reads such a hash.
func (s *Store) published(ctx context.Context, key string) (map[string]string, error) {
	f, err := s.rdb.HGetAll(ctx, key).Result()
	if redisconn.WrongType(err) {
		s.unreadable.PassOver(key, err)
		return nil, nil
	}
	return f, err
}

// mostAhead is how far the clock of a worker's host may be ahead of ours. What says that it was seen
// later would count longer than it may, and be the newest for ever.
const mostAhead = time.Hour

// seen reports whether that may be when a worker said something.
func (s *Store) seen(at time.Time) bool { return at.Sub(s.now()) < mostAhead }
