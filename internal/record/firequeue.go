package record

import (
	"sync"
	"time"
)

// slowFire is how long a fire takes whose tenant's others no longer have to be waited for.
const slowFire = time.Second

// fireQueue has the schedules of one pass, a tenant after the other, so that many of one tenant hold up its
// own. Safe for concurrent use.
type fireQueue struct {
	began time.Time

	mu      sync.Mutex
	tenants []string // with schedules that wait, in the order of their turns
	waiting map[string][]due
	slow    map[string]bool // a fire of theirs took long
	failed  []error
}

func newFireQueue(list []due) *fireQueue {
	q := &fireQueue{began: time.Now(), waiting: map[string][]due{}, slow: map[string]bool{}}
	for _, d := range list {
		if q.waiting[d.tenant] == nil {
			q.tenants = append(q.tenants, d.tenant)
		}
		q.waiting[d.tenant] = append(q.waiting[d.tenant], d)
	}
	return q
}

// take returns the next schedule to look at. Once they have been put off for as long as a pass may take, those
// of tenants whose fires take long are left for the next pass, which finds what has come due of others.
func (q *fireQueue) take(now time.Time) (d due, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tenants) > 0 {
		tenant := q.tenants[0]
		q.tenants = q.tenants[1:]
		if q.slow[tenant] && now.Sub(q.began) >= FireRetry {
			continue
		}
		list := q.waiting[tenant]
		if q.waiting[tenant] = list[1:]; len(list) > 1 {
			q.tenants = append(q.tenants, tenant)
		}
		return list[0], true
	}
	return due{}, false
}

func (q *fireQueue) ended(d due, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slow[d.tenant] = q.slow[d.tenant] || took >= slowFire
}

func (q *fireQueue) fail(errs ...error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = append(q.failed, errs...)
}
