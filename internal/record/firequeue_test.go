package record

import (
	"fmt"
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
	for range 6 {
		d, ok := q.take(q.began)
		if !ok {
			t.Fatal("nothing is left")
		}
		got = append(got, d.tenant+d.id)
		q.ended(d, slowFire-1)
	}
	if want := "[many0 onex twoy many1 twoz many2]"; fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d, ok := q.take(q.began.Add(time.Hour)); !ok || d.id != "3" {
		t.Errorf("got %+v, %t: fires of nobody take long, and a long pass has them all", d, ok)
	}
	q.ended(due{tenant: "many"}, slowFire)
	if d, ok := q.take(q.began.Add(FireRetry - 1)); !ok || d.id != "4" {
		t.Errorf("got %+v, %t: there is time", d, ok)
	}
	if d, ok := q.take(q.began.Add(FireRetry)); ok {
		t.Errorf("got %+v: that is for the next pass", d)
	}
}
