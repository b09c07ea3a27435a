package record

import (
	"context"
	"sync"
	"time"
)

// tenantNoted is how long a process goes by that it noted a tenant: some thousand jobs a second then
// ask Redis once.
const tenantNoted = time.Second

// sweptTenants are the tenants that this process knows to be in tenantsKey.
type sweptTenants struct {
	mu    sync.Mutex
	noted map[string]time.Time
}

// noteTenant makes sure that the sweeper walks the tenant.
func (s *Store) noteTenant(ctx context.Context, tenant string) error {
	s.swept.mu.Lock()
	fresh := time.Since(s.swept.noted[tenant]) < tenantNoted
	s.swept.mu.Unlock()
	if fresh {
		return nil
	}
	began := time.Now()
	if err := s.rdb.SAdd(ctx, tenantsKey, tenant).Err(); err != nil {
		return err
	}
	s.swept.mu.Lock()
	defer s.swept.mu.Unlock()
	if s.swept.noted == nil || len(s.swept.noted) >= maxTenants {
		s.swept.noted = map[string]time.Time{}
	}
	s.swept.noted[tenant] = began
	return nil
}
