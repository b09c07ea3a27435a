package record

import (
	"errors"
	"strconv"

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
