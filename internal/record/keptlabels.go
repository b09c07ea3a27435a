package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// keptCache remembers which labels some tenant is tied to.
type keptCache struct {
	mu     sync.Mutex
	labels map[string]bool
	read   time.Time
}

// KeptLabels are those, as key=value, that the terms of some tenant tie it to: no other may name them. They are as they were within the last
// second. It fails where one tenant's terms can't be read: whose labels are whose has to be known.
func (s *Store) KeptLabels(ctx context.Context) (map[string]bool, error) {
	s.keptLabels.mu.Lock()
	defer s.keptLabels.mu.Unlock() // also while it is read: all wait for the same
	if time.Since(s.keptLabels.read) < tenantLife {
		return s.keptLabels.labels, nil
	}
	began := time.Now()
	tenants, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read which labels are kept for tenants: %w", err)
	}
	labels := map[string]bool{}
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		answers, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.StringCmd {
			return pipe.HGet(ctx, tenantKey(tenant), "terms")
		})
		if err != nil {
			return nil, fmt.Errorf("read which labels are kept for tenants: %w", err)
		}
		for i, a := range answers {
			text, err := a.Bytes()
			if errors.Is(err, redis.Nil) { // it has no terms
				continue
			}
			var terms job.Terms
			if err == nil {
				err = json.Unmarshal(text, &terms)
			}
			if err != nil {
				return nil, fmt.Errorf("read which labels are kept for tenant %s: %w", some[i], err)
			}
			for key, value := range terms.Placement {
				labels[key+"="+value] = true
			}
		}
	}
	s.keptLabels.labels, s.keptLabels.read = labels, began
	return labels, nil
}
