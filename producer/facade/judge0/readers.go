package judge0

import (
	"context"
	"sync"
)

// readerPlaces bounds how many do something at once, in all and of one tenant: one whose submissions are slow
// to read leaves places to the others.
type readerPlaces struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[string]*tenantPlaces
}

// tenantPlaces are a tenant's, for as long as somebody has or wants one.
type tenantPlaces struct {
	places chan struct{}
	users  int
}

func newReaders() *readerPlaces {
	return &readerPlaces{all: make(chan struct{}, mostReads), tenants: map[string]*tenantPlaces{}}
}

// begin waits for a place, until ctx ends. The caller calls done.
func (r *readerPlaces) begin(ctx context.Context, tenant string) (done func(), err error) {
	own := r.enter(tenant)
	// The tenant's own place first: who waits for that must have none of all.
	select {
	case own.places <- struct{}{}:
	case <-ctx.Done():
		r.leave(tenant, own)
		return nil, ctx.Err()
	}
	select {
	case r.all <- struct{}{}:
	case <-ctx.Done():
		<-own.places
		r.leave(tenant, own)
		return nil, ctx.Err()
	}
	return func() {
		<-r.all
		<-own.places
		r.leave(tenant, own)
	}, nil
}

func (r *readerPlaces) enter(tenant string) *tenantPlaces {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.tenants[tenant]
	if own == nil {
		own = &tenantPlaces{places: make(chan struct{}, tenantReads)}
		r.tenants[tenant] = own
	}
	own.users++
	return own
}

func (r *readerPlaces) leave(tenant string, own *tenantPlaces) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(r.tenants, tenant)
	}
}
