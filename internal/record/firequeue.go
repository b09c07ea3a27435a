package record

import (
	"slices"
	"sync"
	"time"
)

// tenantFires is how many schedules of a tenant are looked at at once, also where no other has any: they go
// through what all tenants share.
const tenantFires = 2

// fireQueue has the schedules of one pass, or the runs of pipelines, a tenant after the other, so that many of one
// tenant hold up its own. Safe for concurrent use.
type fireQueue struct {
	began time.Time

	mu      sync.Mutex
	ready   *sync.Cond     // one has ended: there may be another to take
	flight  map[string]int // by tenant
	tenants []string       // with schedules that wait, in the order of their turns
	waiting map[string][]due
	served  map[string]bool // one of theirs was taken
	failed  []error
}

func newFireQueue(list []due) *fireQueue {
	q := &fireQueue{began: time.Now(), flight: map[string]int{}, waiting: map[string][]due{}, served: map[string]bool{}}
	q.ready = sync.NewCond(&q.mu)
	for _, d := range list {
		if q.waiting[d.tenant] == nil {
			q.tenants = append(q.tenants, d.tenant)
		}
		q.waiting[d.tenant] = append(q.waiting[d.tenant], d)
	}
	return q
}

// run does something for each, for so many at once, and returns what failed.
func (q *fireQueue) run(atOnce int, do func(due) error) []error {
	var places sync.WaitGroup
	for range atOnce {
		places.Go(func() {
			for d, ok := q.take(time.Now); ok; d, ok = q.take(time.Now) {
				err := do(d)
				q.ended(d)
				if err != nil {
					q.fail(err)
				}
			}
		})
	}
	places.Wait()
	return q.failed
}

// take returns the next schedule to look at, and waits while all that are left are of tenants with as many
// in flight as may be. Once they have been put off for as long as a pass may take, those of tenants that have had a turn
// are left for the next pass, which finds what has come due of others: however many a tenant has, and however long each takes.
func (q *fireQueue) take(now func() time.Time) (d due, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		late := now().Sub(q.began) >= FireRetry
		q.tenants = slices.DeleteFunc(q.tenants, func(tenant string) bool { return late && q.served[tenant] })
		if len(q.tenants) == 0 {
			return due{}, false
		}
		if i := slices.IndexFunc(q.tenants, func(tenant string) bool { return q.flight[tenant] < tenantFires }); i >= 0 {
			return q.takeOf(i), true
		}
		q.ready.Wait()
	}
}

// takeOf takes the next schedule of the ith tenant, whose turn comes again after the others'.
func (q *fireQueue) takeOf(i int) due {
	tenant := q.tenants[i]
	list := q.waiting[tenant]
	q.tenants = slices.Delete(q.tenants, i, i+1)
	if q.waiting[tenant] = list[1:]; len(list) > 1 {
		q.tenants = append(q.tenants, tenant)
	}
	q.flight[tenant]++
	q.served[tenant] = true
	return list[0]
}

// ended gives back the place of one that was taken.
func (q *fireQueue) ended(d due) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flight[d.tenant]--
	q.ready.Broadcast()
}

func (q *fireQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = append(q.failed, err)
}
