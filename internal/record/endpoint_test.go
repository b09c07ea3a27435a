package record

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// endpointWorld is a tenant with an endpoint, and a clock that a test moves.
type endpointWorld struct {
	*Store

	e    job.Endpoint
	now  time.Time
	pace Pace
}

func newEndpointWorld(t *testing.T) *endpointWorld {
	t.Helper()
	w := &endpointWorld{Store: openStore(t, Config{Retention: 30 * 24 * time.Hour}), now: time.Now().Truncate(time.Millisecond)}
	w.Store.now = func() time.Time { return w.now }
	w.pace = Pace{Most: 16, Pauses: []time.Duration{0, 0, 5 * time.Second, 5 * time.Minute, 10 * time.Minute}, Patience: 80 * time.Hour}
	var err error
	if w.e, err = w.CreateEndpoint(t.Context(), job.NewEndpointID("default"), EndpointSettings{EndpointSettings: job.EndpointSettings{URL: "https://example.com/", Events: job.EndpointEvents()}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// event has a job end and its event fanned out, and returns the delivery's id.
func (w *endpointWorld) event(t *testing.T) string {
	t.Helper()
	j := endedWith(t, w.Store, "default", "")
	event, err := w.GetDelivery(t.Context(), "default", MessageID(j.ID, job.EventCompleted))
	if err != nil || !event.IsEvent() {
		t.Fatalf("got %+v, %v, want an event", event, err)
	}
	if err := w.FanOut(t.Context(), event, []string{w.e.ID}, w.pace); err != nil {
		t.Fatal(err)
	}
	return DeliveryID(j.ID, job.EventCompleted, w.e.ID)
}

// take tries to begin the attempt that is due.
func (w *endpointWorld) take(t *testing.T, did string) (Delivery, error) {
	t.Helper()
	d, err := w.GetDelivery(t.Context(), "default", did)
	if err != nil {
		t.Fatal(err)
	}
	return w.TakeDelivery(t.Context(), "default", did, queue.Turn{Attempt: d.Attempt, Waits: d.Waits}, w.pace)
}

// attempt makes one, which has to be possible, and comes to that.
func (w *endpointWorld) attempt(t *testing.T, did string, state DeliveryState, after time.Duration) {
	t.Helper()
	d, err := w.take(t, did)
	if err != nil {
		t.Fatalf("take %s: %v", did, err)
	}
	w.note(t, d, state, after)
}

func (w *endpointWorld) note(t *testing.T, d Delivery, state DeliveryState, after time.Duration) {
	t.Helper()
	began := w.now
	w.now = w.now.Add(time.Second)
	o := Outcome{State: state, Status: 200, Began: began, Took: time.Second}
	if state != Delivered {
		o.Status, o.Problem, o.Next = 500, "no", w.now.Add(after)
	}
	if err := w.Attempted(t.Context(), d, o, w.pace); err != nil {
		t.Fatal(err)
	}
}

func (w *endpointWorld) health(t *testing.T) job.EndpointHealth {
	t.Helper()
	list := []job.Endpoint{w.e}
	if err := w.AddHealth(t.Context(), "default", list); err != nil {
		t.Fatal(err)
	}
	return list[0].Health
}

// The window opens with each success, up to what the pace allows, and closes with a failure.
func TestLaneWindow(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	for _, want := range []int{1, 2, 4, 8, 16, 16} {
		var taken []Delivery
		var waits []string
		for range want + 1 {
			did := w.event(t)
			d, err := w.take(t, did)
			if errors.Is(err, ErrNotDue) {
				waits = append(waits, did)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, d)
		}
		if len(taken) != want || len(waits) != 1 || w.health(t).Waiting != 1 {
			t.Fatalf("%d attempts began and %d wait, want %d and 1", len(taken), len(waits), want)
		}
		for _, d := range taken[1:] { // all but one fail, side by side: as if it were one
			w.note(t, d, Exhausted, 0)
		}
		w.note(t, taken[0], Delivered, 0)
		// The one that waited was released.
		w.attempt(t, waits[0], Delivered, 0)
		for range want { // back to where it was
			w.attempt(t, w.event(t), Delivered, 0)
		}
		if h := w.health(t); h.State != job.EndpointOK || h.NextAt != nil || h.Waiting != 0 {
			t.Errorf("got %+v, want it ok and nothing waiting", h)
		}
		window := w.rdb.HGet(t.Context(), endpointLaneKey("default", w.e.ID), "window").Val()
		w.rdb.HSet(t.Context(), endpointLaneKey("default", w.e.ID), "window", min(2*want, 16))
		if window != "16" && want > 4 {
			t.Errorf("got a window of %s after %d successes", window, want)
		}
	}
}

// One message that fails among others pauses nothing, however often. Where nothing succeeds
// the pauses grow, and one attempt is made after each, at another message.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	bad := w.event(t)
	for range 5 {
		w.attempt(t, bad, Pending, 0)
		w.attempt(t, w.event(t), Delivered, 0)
		if h := w.health(t); h.State != job.EndpointOK || h.NextAt != nil {
			t.Fatalf("got %+v after a message that fails and one that does not, want it ok", h)
		}
	}
	for failures, pause := range []time.Duration{0, 0, 5 * time.Second, 5 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		w.attempt(t, w.event(t), Pending, 100*time.Hour)
		h := w.health(t)
		if h.State != job.EndpointFailing || pause == 0 != (h.NextAt == nil) || pause > 0 && h.NextAt.Sub(w.now) != pause {
			t.Fatalf("after %d failures: got %+v at %s, want a pause of %s", failures+1, h, w.now, pause)
		}
		if pause > 0 {
			waits := w.event(t)
			w.waits(t, waits, w.now.Add(pause))
			d, err := w.GetDelivery(t.Context(), "default", waits)
			if err != nil || !d.Due.Equal(w.now.Add(pause).UTC()) {
				t.Errorf("got %s, %v: want the only one that waits due after the pause, %s", d.Due, err, w.now.Add(pause))
			}
			w.now = w.now.Add(pause)
			w.attempt(t, waits, Delivered, 0) // it is back
			for range failures + 1 {          // and away again
				w.attempt(t, w.event(t), Pending, 100*time.Hour)
				w.now = w.now.Add(10 * time.Minute)
			}
		}
	}
}

// An outage of a day: what comes waits, one attempt is made every ten minutes, and after
// it all come out of the line, each once.
func TestOutageOfADay(t *testing.T) {
	t.Parallel()
	const n = 30
	w := newEndpointWorld(t)
	attempts := map[string]int{}
	var ids []string
	for range n {
		ids = append(ids, w.event(t))
	}
	for _, id := range ids {
		d, err := w.take(t, id)
		if errors.Is(err, ErrNotDue) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		attempts[id]++
		w.note(t, d, Pending, 5*time.Minute)
	}
	// due are the ids of those that the lane has released, or that their own schedule brings.
	due := func() (list []string) {
		for _, id := range ids {
			d, err := w.GetDelivery(t.Context(), "default", id)
			if err != nil {
				t.Fatal(err)
			}
			_, waits := w.rdb.ZScore(t.Context(), endpointLaneKey("default", w.e.ID)+":waiting", id).Result()
			if d.State == Pending && waits != nil && !d.Due.After(w.now) {
				list = append(list, id)
			}
		}
		return list
	}
	outage := w.now.Add(24 * time.Hour)
	tries := 0
	for w.now.Before(outage) {
		for _, id := range due() {
			d, err := w.take(t, id)
			if errors.Is(err, ErrNotDue) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			tries++
			attempts[id]++
			w.note(t, d, Pending, 5*time.Minute)
		}
		w.now = w.now.Add(5 * time.Minute)
	}
	if tries < 100 || tries > 160 {
		t.Errorf("%d attempts in a day, want one every ten minutes", tries)
	}
	back, delivered := w.now, map[string]int{}
	for len(delivered) < n && w.now.Sub(back) < time.Hour {
		for _, id := range due() {
			d, err := w.take(t, id)
			if errors.Is(err, ErrNotDue) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			delivered[id]++
			w.note(t, d, Delivered, 0)
		}
		w.now = w.now.Add(time.Second)
	}
	if len(delivered) != n {
		t.Errorf("%d of %d are delivered within the hour: %+v", len(delivered), n, w.health(t))
	}
	for id, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
	t.Logf("%d attempts in the day; all %d delivered %s after it", tries, n, w.now.Sub(back))
}

// An endpoint to which nothing could be delivered for five days is disabled: what comes then is
// missed, and known as failed; one attempt a day is made, whose success enables it.
func TestDisabledAfterDays(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	stuck := w.event(t)
	began := w.now
	for day := 0.0; w.health(t).State != job.EndpointDisabled; day = w.now.Sub(began).Hours() / 24 {
		if day > 6 {
			t.Fatalf("it is %+v after %.1f days", w.health(t), day)
		}
		w.attempt(t, stuck, Pending, 6*time.Hour)
		w.now = w.now.Add(6 * time.Hour)
	}
	if after := w.now.Sub(began); after < disableAfter || after > disableAfter+12*time.Hour {
		t.Errorf("it is disabled after %s", after)
	}
	if h := w.health(t); h.DisabledAt == nil || h.Reason == "" || h.NextAt == nil {
		t.Errorf("got %+v, want when, why, and when it is tried again", h)
	}
	w.now = *w.health(t).NextAt
	missed := []string{w.event(t), w.event(t)}
	w.attempt(t, missed[0], Pending, time.Minute) // the day's probe
	d, err := w.take(t, missed[1])
	if !errors.Is(err, ErrEndpointDisabled) {
		t.Fatalf("got %v, want it missed", err)
	}
	if err := w.Attempted(t.Context(), d, Outcome{State: Exhausted, Problem: err.Error()}, w.pace); err != nil {
		t.Fatal(err)
	}
	if d, err := w.GetDelivery(t.Context(), "default", missed[0]); err != nil || d.Due.Sub(w.now) != probeInterval {
		t.Errorf("got %s, %v: want the next probe in a day", d.Due.Sub(w.now), err)
	}
	ids, err := w.FailedDeliveries(t.Context(), "default", w.e.ID, began, w.now, 10)
	if err != nil || fmt.Sprint(ids) != fmt.Sprint(missed[1:]) {
		t.Errorf("got %v, %v, want %v", ids, err, missed[1:])
	}
	w.now = w.now.Add(probeInterval)
	w.attempt(t, missed[0], Delivered, 0)
	if h := w.health(t); h.State != job.EndpointOK || h.DisabledAt != nil {
		t.Errorf("got %+v, want it enabled", h)
	}
	w.attempt(t, w.event(t), Delivered, 0)

	// 410 disables at once. Two failures with a week between are no five days of failure.
	w.attempt(t, w.event(t), Gone, 0)
	if h := w.health(t); h.State != job.EndpointDisabled || h.Reason != "it answered 410" {
		t.Errorf("got %+v after 410, want it disabled", h)
	}
	err = w.ChangeEndpoint(t.Context(), "default", w.e.ID, true, func(*EndpointSettings) error { return nil })
	if err != nil || w.health(t).State != job.EndpointOK {
		t.Errorf("got %+v, %v, want it enabled", w.health(t), err)
	}
	w.attempt(t, w.event(t), Delivered, 0)

	// What waits for the end of a pause goes first once it is enabled, and then others.
	flies, waits := w.event(t), w.event(t)
	flying, err := w.take(t, flies)
	if err != nil {
		t.Fatal(err)
	}
	w.rdb.HSet(t.Context(), endpointLaneKey("default", w.e.ID), "window", 1)
	if _, err := w.take(t, waits); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	w.note(t, flying, Gone, 0)
	if err := w.ChangeEndpoint(t.Context(), "default", w.e.ID, true, func(*EndpointSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if d, err := w.GetDelivery(t.Context(), "default", waits); err != nil || d.Due.After(w.now) {
		t.Errorf("got %+v, %v, want it due", d, err)
	}
	w.attempt(t, waits, Delivered, 0)
	w.attempt(t, w.event(t), Delivered, 0)

	w.attempt(t, w.event(t), Exhausted, 0)
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.attempt(t, w.event(t), Exhausted, 0)
	if h := w.health(t); h.State != job.EndpointFailing {
		t.Errorf("got %+v, want it failing", h)
	}
}

// What a lane forgot, the sweeper brings back; what has waited for too long is given up.
func TestWaitsNotForEver(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	flying, waits := w.event(t), w.event(t)
	if _, err := w.take(t, flying); err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, waits); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	if at := time.UnixMilli(int64(w.rdb.ZScore(t.Context(), outboxKey("default"), waits).Val())); !at.Equal(w.now.Add(waitCheck)) {
		t.Errorf("the sweeper looks at it %s, want in an hour", at)
	}
	w.now = w.now.Add(attemptLife + time.Second) // the process that made the attempt died
	d, err := w.take(t, waits)
	if err != nil {
		t.Fatalf("got %v, want the place of the one that died", err)
	}
	old := w.event(t)
	w.now = w.now.Add(81 * time.Hour)
	if _, err := w.TakeDelivery(t.Context(), "default", w.event(t), queue.Turn{Attempt: 1}, w.pace); err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, old); !errors.Is(err, ErrOverdue) {
		t.Errorf("got %v, want it given up after %s", err, w.pace.Patience)
	}
	w.note(t, d, Delivered, 0)
}

// No tenant has more than so many.
func TestMaxEndpoints(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	for i := 1; ; i++ {
		_, err := w.CreateEndpoint(t.Context(), job.NewEndpointID("default"), EndpointSettings{EndpointSettings: job.EndpointSettings{URL: "https://example.com/", Events: job.EndpointEvents()}})
		if i < job.MaxEndpoints && err == nil {
			continue
		}
		if i != job.MaxEndpoints || !errors.Is(err, job.ErrTooManyEndpoints) {
			t.Errorf("got %v at endpoint %d", err, i+1)
		}
		return
	}
}
