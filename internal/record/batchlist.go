package record

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// ParseBatchPosition reads a Position of this tenant's list of batches.
func ParseBatchPosition(tenant, s string) (Position, bool) {
	millis, id, ok := strings.Cut(s, ":")
	of, isID := job.TenantOfBatch(id)
	digits := strings.Trim(millis, "0123456789") == ""
	return Position(s), ok && isID && of == tenant && digits && len(millis) == millisDigits
}

// ListBatches returns batches of a tenant, newest first, without the errors of their
// rejected jobs, and where the next page goes on: "" at the end.
func (s *Store) ListBatches(ctx context.Context, tenant string, after Position, limit int) (list []Batch, next Position, err error) {
	if !job.ValidTenant(tenant) {
		return nil, "", nil
	}
	most := "+"
	if after != "" {
		most = "(" + string(after)
	}
	entries, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: batchesKey(tenant), ByLex: true, Rev: true, Start: most, Stop: "-", Count: int64(limit)}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("list batches: %w", err)
	}
	pipe := s.rdb.Pipeline()
	fields := make([]*redis.MapStringStringCmd, len(entries))
	for i, e := range entries {
		fields[i] = pipe.HGetAll(ctx, batchKey(tenant, Position(e).id()))
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil && len(entries) > 0 {
		return nil, "", fmt.Errorf("list batches: %w", err)
	}
	bytes := 0
	for i, f := range fields {
		if bytes += len(f.Val()["metadata"]); bytes > listBytes && len(list) > 0 {
			return list, Position(entries[i-1]), nil
		}
		if len(f.Val()) == 0 {
			continue // it has expired
		}
		b, err := parseBatch(tenant, Position(entries[i]).id(), f.Val(), nil)
		if err != nil {
			s.unreadable.PassOver("a batch", err)
			continue
		}
		list = append(list, b)
	}
	if len(entries) == limit {
		next = Position(entries[limit-1])
	}
	return list, next, nil
}
