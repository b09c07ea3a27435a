package record

import (
	"strconv"
	"testing"
	"time"
)

// Names that a stranger makes up push out no tenant.
func TestAbsentTenantsPushOutNone(t *testing.T) {
	t.Parallel()
	var c tenantCache
	now := time.Now()
	c.put("acme", remembered{exists: true, read: now})
	for i := range 3 * maxTenants {
		c.put("x"+strconv.Itoa(i), remembered{read: now})
	}
	if r := c.newest("acme"); !r.exists {
		t.Error("the tenant is forgotten")
	}
	if n := len(c.absent); n > maxTenants {
		t.Errorf("%d names are remembered that no tenant has", n)
	}
	// One that is created since is not taken for absent, whichever is read first.
	c.put("new", remembered{read: now})
	c.forget("new")
	if _, ok := c.get("new"); ok {
		t.Error("what was read before a change is gone by")
	}
	c.put("new", remembered{read: now, exists: false})
	if _, ok := c.get("new"); ok {
		t.Error("what was read before a change, and comes late, is gone by")
	}
	c.put("new", remembered{read: time.Now().Add(time.Millisecond), exists: true})
	if r := c.newest("new"); !r.exists {
		t.Error("what was read after a change is not gone by")
	}
}
