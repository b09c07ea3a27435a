package api

import (
	"fmt"
	"sync"

	"github.com/glovebox-run/glovebox/job"
)

// tenantLimiter bounds what each tenant has under way in this process, of one kind.
type tenantLimiter struct {
	most int
	full job.Error // what a request beyond that is answered
	mu   sync.Mutex
	of   map[string]int
}

func newTenantLimiter(most int, code, message string) *tenantLimiter {
	return &tenantLimiter{most: most, full: job.Error{Code: code, Message: fmt.Sprintf(message, most)}, of: map[string]int{}}
}

func (l *tenantLimiter) acquire(tenant string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[tenant] >= l.most {
		return nil, &l.full
	}
	l.of[tenant]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[tenant]--; l.of[tenant] == 0 {
			delete(l.of, tenant)
		}
	}, nil
}
