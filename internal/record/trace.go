package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// TraceOf is where the trace goes on of what a delivery is about, as a traceparent, or "".
func (s *Store) TraceOf(ctx context.Context, d Delivery) (string, error) {
	var key string
	switch {
	case d.RunID != "":
		key = runKey(d.Tenant, d.RunID)
	case d.JobID != "":
		key = jobKey(d.Tenant, d.JobID)
	default: // a batch's jobs have traces of their own
		return "", nil
	}
	trace, err := s.rdb.HGet(ctx, key, "trace").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read trace: %w", err)
	}
	return trace, nil
}
