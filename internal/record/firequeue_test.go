package record

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFireQueue: one tenant's hundred schedules don't hold up another's one, neither in a pass nor by making it
// long.
func TestFireQueue(t *testing.T) {
	t.Parallel()
	var list []due
	for i := range 100 {
		list = append(list, due{tenant: "many", id: fmt.Sprint(i)})
	}
	list = append(list, due{tenant: "one", id: "x"}, due{tenant: "two", id: "y"}, due{tenant: "two", id: "z"})
	q := newFireQueue(list)
	var got []string
	at := func(d time.Duration) func() time.Time { return func() time.Time { return q.began.Add(d) } }
	for range 6 {
		d, ok := q.take(at(0))
		if !ok {
			t.Fatal("nothing is left")
		}
		got = append(got, d.tenant+d.id)
		q.ended(d)
	}
	if want := "[many0 onex twoy many1 twoz many2]"; fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d, ok := q.take(at(FireRetry - 1)); !ok || d.id != "3" {
		t.Errorf("got %+v, %t: there is time", d, ok)
	}
	if d, ok := q.take(at(FireRetry)); ok {
		t.Errorf("got %+v: that is for the next pass", d)
	}
}

// TestFireQueueLate: many of several tenants, each of which takes nearly a second, make no pass longer than it may be, in which
// each tenant has a turn all the same.
func TestFireQueueLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []due
		for tenant := range 8 {
			for i := range 100 {
				list = append(list, due{tenant: fmt.Sprint("many", tenant), id: fmt.Sprint(i)})
			}
		}
		began, done := time.Now(), map[string]int{}
		var mu sync.Mutex
		newFireQueue(list).run(firesAtOnce, func(d due) error {
			time.Sleep(900 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			done[d.tenant]++
			return nil
		})
		if took := time.Since(began); took > FireRetry+time.Second || len(done) != 8 {
			t.Errorf("a pass took %s, and %d tenants had turns, want %s and 8", took, len(done), FireRetry)
		}
		began, done = time.Now(), map[string]int{}
		newFireQueue(list).run(1, func(d due) error { // so slow that not all have had one in time
			time.Sleep(FireRetry / 2)
			done[d.tenant]++
			return nil
		})
		if took := time.Since(began); took != 4*FireRetry || len(done) != 8 {
			t.Errorf("a pass took %s, and %d tenants had turns, want each to have one", took, len(done))
		}
	})
}

// TestFireQueueOfOne: a tenant that is alone has no more in flight than beside others.
func TestFireQueueOfOne(t *testing.T) {
	t.Parallel()
	var list []due
	for i := range 50 {
		list = append(list, due{tenant: "one", id: fmt.Sprint(i)})
	}
	q := newFireQueue(list)
	var flight, most, taken atomic.Int64
	var places sync.WaitGroup
	for range firesAtOnce {
		places.Go(func() {
			for d, ok := q.take(time.Now); ok; d, ok = q.take(time.Now) {
				if n := flight.Add(1); n > most.Load() {
					most.Store(n)
				}
				taken.Add(1)
				runtime.Gosched()
				flight.Add(-1)
				q.ended(d)
			}
		})
	}
	places.Wait()
	if most.Load() > tenantFires || taken.Load() != 50 {
		t.Errorf("got %d in flight and %d in all, want %d at most of 50", most.Load(), taken.Load(), tenantFires)
	}
}
