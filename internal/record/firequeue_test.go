package record

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
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
		q.ended(d, slowFire-1)
	}
	if want := "[many0 onex twoy many1 twoz many2]"; fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d, ok := q.take(at(time.Hour)); !ok || d.id != "3" {
		t.Errorf("got %+v, %t: fires of nobody take long, and a long pass has them all", d, ok)
	}
	q.ended(due{tenant: "many"}, slowFire)
	if d, ok := q.take(at(FireRetry - 1)); !ok || d.id != "4" {
		t.Errorf("got %+v, %t: there is time", d, ok)
	}
	if d, ok := q.take(at(FireRetry)); ok {
		t.Errorf("got %+v: that is for the next pass", d)
	}
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
				q.ended(d, 0)
			}
		})
	}
	places.Wait()
	if most.Load() > tenantFires || taken.Load() != 50 {
		t.Errorf("got %d in flight and %d in all, want %d at most of 50", most.Load(), taken.Load(), tenantFires)
	}
}
