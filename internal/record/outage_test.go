package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What waited over a day's outage, ten thousand messages of it, is all delivered within the hour after it, each
// once, if the endpoint takes a second for each.
func TestTenThousandAfterADay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: each message has a job that ended")
	}
	t.Parallel()
	const n, early = 10_000, 50
	w := newEndpointWorld(t)
	back := w.now.Add(24 * time.Hour)
	before := w.usedMemory(t)
	for range early { // they are looked at each hour
		w.event(t)
	}
	tries := 0
	for w.now.Before(back) {
		for _, d := range w.takeDue(t) {
			tries++
			w.settle(t, d, Pending)
		}
		w.now = w.now.Add(time.Minute)
	}
	for range n - early { // the last of the day
		w.event(t)
	}
	waiting := w.usedMemory(t) - before
	delivered := map[string]int{}
	for len(delivered) < n && w.now.Sub(back) < 2*time.Hour {
		taken := w.takeDue(t)
		w.now = w.now.Add(time.Second)
		for _, d := range taken {
			delivered[d.MessageID()]++
			w.settle(t, d, Delivered)
		}
	}
	if took := w.now.Sub(back); len(delivered) != n || took > time.Hour {
		t.Errorf("%d of %d are delivered %s after the outage", len(delivered), n, took)
	}
	for id, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
	if left := w.rdb.ZCard(t.Context(), outboxKey("default")).Val(); left != 0 {
		t.Errorf("%d are due still", left)
	}
	t.Logf("%d attempts in the day; all %d delivered %s after it; Redis held %.1f MiB for them as they waited, %d bytes each with job and result",
		tries, n, w.now.Sub(back), float64(waiting)/(1<<20), waiting/n)
}

// takeDue begins the attempts that are due, as far as there is room.
func (w *endpointWorld) takeDue(t *testing.T) (taken []Delivery) {
	t.Helper()
	ids, err := w.rdb.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: outboxKey("default"), ByScore: true, Start: "-inf", Stop: ms(w.now)}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		d, err := w.take(t, id)
		if errors.Is(err, ErrNotDue) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, d)
	}
	return taken
}

// settle notes an attempt that has ended now.
func (w *endpointWorld) settle(t *testing.T, d Delivery, state DeliveryState) {
	t.Helper()
	o := Outcome{State: state, Status: 200, Began: w.now.Add(-time.Second), Took: time.Second}
	if state != Delivered {
		o.Status, o.Problem, o.Next = 500, "no", w.now.Add(5*time.Minute)
	}
	if err := w.Attempted(t.Context(), d, o, w.pace); err != nil {
		t.Fatal(err)
	}
}

func (w *endpointWorld) usedMemory(t *testing.T) (n int64) {
	t.Helper()
	info, err := w.rdb.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
