package record

import (
	"context"
	"sync"
	"time"
)

// recentLife is how long a process goes by what it asked or told Redis for every job:
// some thousand jobs a second then ask it once.
const recentLife = time.Second

// recent is what the submission of jobs goes by.
type recent struct {
	mu       sync.Mutex
	runtimes []Runtime
	read     time.Time
	told     map[string]time.Time // tenants that are in tenantsKey
}

// RecentRuntimes is Runtimes as it was within the last second; none are never remembered.
// The list is everybody's: it is not to be changed.
func (s *Store) RecentRuntimes(ctx context.Context) ([]Runtime, error) {
	s.recent.mu.Lock()
	list, fresh := s.recent.runtimes, time.Since(s.recent.read) < recentLife
	s.recent.mu.Unlock()
	if fresh {
		return list, nil
	}
	began := time.Now()
	list, err := s.Runtimes(ctx)
	if err == nil && len(list) > 0 {
		s.recent.mu.Lock()
		s.recent.runtimes, s.recent.read = list, began
		s.recent.mu.Unlock()
	}
	return list, err
}

// noteTenant makes sure that the sweeper walks the tenant.
func (s *Store) noteTenant(ctx context.Context, tenant string) error {
	s.recent.mu.Lock()
	fresh := time.Since(s.recent.told[tenant]) < recentLife
	s.recent.mu.Unlock()
	if fresh {
		return nil
	}
	began := time.Now()
	if err := s.rdb.SAdd(ctx, tenantsKey, tenant).Err(); err != nil {
		return err
	}
	s.recent.mu.Lock()
	defer s.recent.mu.Unlock()
	if s.recent.told == nil || len(s.recent.told) >= maxTenants {
		s.recent.told = map[string]time.Time{}
	}
	s.recent.told[tenant] = began
	return nil
}
