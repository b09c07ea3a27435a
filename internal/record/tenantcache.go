package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// tenantLife is how long a process goes by what it read of a tenant: a token that
	// another process revoked is good for that long at most.
	tenantLife = time.Second
	// maxTenants bounds what names that a stranger makes up can take of our memory.
	maxTenants = 10_000
)

// tenantCache remembers tenants, and apart from them names that no tenant has: those that
// a stranger makes up push out no tenant.
type tenantCache struct {
	listed atomic.Pointer[[]string] // as the sweeper found them last, sorted

	mu      sync.Mutex
	tenants map[string]remembered
	absent  map[string]remembered
}

type remembered struct {
	tenant TenantRecord
	exists bool
	void   bool      // a change came after it
	read   time.Time // just before it was read, or changed
}

// Tenant returns a tenant as it was within the last second, without what it uses, or
// job.ErrNoTenant. When Redis doesn't answer, nothing older is returned.
func (s *Store) Tenant(ctx context.Context, name string) (TenantRecord, error) {
	if !job.ValidTenant(name) {
		return TenantRecord{}, job.ErrNoTenant
	}
	r, ok := s.tenants.get(name)
	if !ok {
		r = remembered{read: time.Now()}
		var err error
		r.tenant, err = s.readTerms(ctx, name)
		if err != nil && !errors.Is(err, job.ErrNoTenant) {
			return TenantRecord{}, err
		}
		r.exists = err == nil
		s.tenants.put(name, r)
	}
	if !r.exists {
		return TenantRecord{}, job.ErrNoTenant
	}
	return r.tenant, nil
}

// KnowsTenant reports whether this process has heard of a tenant of that name. To ask for such
// a one costs Redis a question a second at most.
func (s *Store) KnowsTenant(name string) bool {
	if listed := s.tenants.listed.Load(); listed != nil {
		if contains(*listed, name) {
			return true
		}
	}
	s.tenants.mu.Lock()
	defer s.tenants.mu.Unlock()
	return s.tenants.tenants[name].exists
}

func (c *tenantCache) get(name string) (remembered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.newest(name)
	return r, !r.void && time.Since(r.read) < tenantLife
}

func (c *tenantCache) put(name string, r remembered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.read.Before(c.newest(name).read) { // what was read before a change would outlive it
		return
	}
	into := &c.absent
	if r.exists || r.void {
		into = &c.tenants
	}
	if *into == nil || len(*into) >= maxTenants {
		*into = map[string]remembered{}
	}
	(*into)[name] = r
}

// newest is what was read of the name, or changed, last; the zero value, of long ago, for nothing.
func (c *tenantCache) newest(name string) remembered {
	r := c.tenants[name]
	if other := c.absent[name]; other.read.After(r.read) {
		return other
	}
	return r
}

// forget makes the next question go to Redis, and what is being read now no answer to it.
func (c *tenantCache) forget(name string) {
	c.put(name, remembered{void: true, read: time.Now()})
}

// contains looks into a sorted list.
func contains(sorted []string, one string) bool {
	_, found := slices.BinarySearch(sorted, one)
	return found
}
