package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// addEndpoints makes n endpoints that want every event.
func (s *Store) addEndpoints(t *testing.T, n int) (ids []string) {
	t.Helper()
	for range n {
		id := job.NewEndpointID("default")
		if _, err := s.CreateEndpoint(t.Context(), id, EndpointSettings{EndpointSettings: job.EndpointSettings{URL: "https://example.com/", Events: job.EndpointEvents()}}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// sessionEnds is the id of a session that has ended.
func (s *Store) sessionEnds(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	x, err := s.OpenSession(ctx, "default", job.SessionSettings{Runtime: "python", Limits: job.DefaultLimits}, nil)
	if err == nil {
		_, err = s.ClaimSession(ctx, x.ID, "w1")
	}
	if err == nil {
		err = s.EndSession(ctx, x.ID, "w1", job.SessionEnd{Reason: job.EndIdle, Message: "it has executed nothing for its idle_seconds"})
	}
	if err != nil {
		t.Fatal(err)
	}
	return x.ID
}

// endedSession is a session that has ended, whose event waits to be fanned out.
func (s *Store) endedSession(t *testing.T) (Session, Delivery) {
	t.Helper()
	id := s.sessionEnds(t)
	event, err := s.GetDelivery(t.Context(), "default", MessageID(sessionNews(id), job.EventSessionEnded))
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.GetSession(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return x, event
}

// endpointIDs are those of all endpoints that the tenant has.
func (s *Store) endpointIDs(t *testing.T) (ids []string) {
	t.Helper()
	endpoints, err := s.Endpoints(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints {
		ids = append(ids, e.ID)
	}
	return ids
}

// tellOfSession has a session end and its endpoints told, and returns the deliveries.
func (s *Store) tellOfSession(t *testing.T, pace Pace) (x Session, dids []string) {
	t.Helper()
	x, event := s.endedSession(t)
	to := s.endpointIDs(t)
	for _, id := range to {
		dids = append(dids, DeliveryID(event.Subject(), event.Event, id))
	}
	if err := s.FanOut(t.Context(), event, to, pace); err != nil {
		t.Fatal(err)
	}
	return x, dids
}

// sessionPurged has a session and what is kept of it gone.
func (w *endpointWorld) sessionPurged(t *testing.T, id string) {
	t.Helper()
	if err := errors.Join(w.PurgeSession(t.Context(), id), w.forget(t.Context(), "default", id, time.Time{})); err != nil {
		t.Fatal(err)
	}
}

// fails has the only attempt at a delivery fail in many words.
func (s *Store) fails(t *testing.T, did string) {
	t.Helper()
	d, err := s.GetDelivery(t.Context(), "default", did)
	if err != nil {
		t.Fatal(err)
	}
	pace := Pace{Most: 16, Pauses: []time.Duration{0}, Patience: time.Hour}
	if d, err = s.TakeDelivery(t.Context(), "default", did, queue.Turn{Attempt: d.Attempt, Waits: d.Waits}, pace); err != nil {
		t.Fatal(err)
	}
	if err := s.Attempted(t.Context(), d, Outcome{State: Exhausted, Status: 500, Problem: strings.Repeat("no", 50), Began: time.Now()}, pace); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{queue.Delivery, "normal"} { // tasks, as they are handled
		if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks(of); err != nil && !strings.Contains(err.Error(), "does not exist") { // the error is of no kind
			t.Fatal(err)
		}
	}
}

// drained is what counts once what is over has left: anything that is created looks for that.
func (w *endpointWorld) drained(t *testing.T) int64 {
	t.Helper()
	if err := w.Purged(t.Context(), job.NewID("default")); err != nil {
		t.Fatal(err)
	}
	return w.recorded(t)
}

// A delivery of news counts as long as it is there: while it is pending, done, and asked for again; once, however often it is
// made; and no more once its time is over or what it is about is purged.
func TestNewsCountsAsLongAsItIsThere(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	ctx := t.Context()
	before := w.recorded(t)
	counts := func(when string, session, done, pending int64) {
		t.Helper()
		want := session*sessionCost + (done+pending)*endpointDeliveryCost + pending*deliveryCost
		// A session counts some bytes for its settings besides.
		if got := w.drained(t) - before; got < want || got >= want+keyCost {
			t.Errorf("%s: %d bytes are counted, want %d", when, got, want)
		}
	}
	_, dids := w.tellOfSession(t, w.pace)
	counts("pending", 1, 0, 1)
	w.attempt(t, dids[0], Delivered, 0)
	counts("delivered", 1, 1, 0)
	for range 2 {
		if words, err := w.Redeliver(ctx, "default", dids); err != nil || words[0] != RedeliverOK {
			t.Fatal(words, err)
		}
		counts("asked for again", 1, 0, 1)
		w.attempt(t, dids[0], Exhausted, 0)
		counts("failed", 1, 1, 0)
	}
	if err := w.DeleteEndpoint(ctx, "default", w.e.ID); err != nil {
		t.Fatal(err)
	}
	counts("its endpoint is deleted", 1, 1, 0)
	w.e.ID = w.addEndpoints(t, 1)[0]

	y, more := w.tellOfSession(t, w.pace)
	w.attempt(t, more[0], Delivered, 0)
	counts("two", 2, 2, 0)
	w.sessionPurged(t, y.ID)
	counts("one is purged", 1, 1, 0)

	// One that is pending when its time is over counts until it is done.
	_, more = w.tellOfSession(t, w.pace)
	d, err := w.take(t, more[0])
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(31 * 24 * time.Hour)
	w.rdb.Del(ctx, deliveryKey("default", dids[0])) // as Redis does, by its own clock
	counts("their time is over", 2, 0, 1)
	w.now = w.now.Add(31 * 24 * time.Hour)
	counts("still pending", 2, 0, 1)
	w.note(t, d, Delivered, 0)
	w.rdb.Del(ctx, deliveryKey("default", more[0]))
	w.now = w.now.Add(time.Hour)
	counts("done after its time", 2, 0, 0)
	if n := w.rdb.Exists(ctx, lastingDeliveriesKey("default")).Val(); n != 0 {
		t.Errorf("something counts still: %v", w.rdb.ZRange(ctx, lastingDeliveriesKey("default"), 0, -1).Val())
	}
}

// What was made by an earlier version counts nowhere until it is over, and nothing is given back for it.
func TestNewsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	x, dids := w.tellOfSession(t, w.pace)
	w.attempt(t, dids[0], Delivered, 0)
	w.rdb.Del(t.Context(), lastingDeliveriesKey("default"))
	before := w.drained(t)
	if _, err := w.Redeliver(t.Context(), "default", dids); err != nil {
		t.Fatal(err)
	}
	w.attempt(t, dids[0], Delivered, 0)
	if got := w.drained(t); got != before {
		t.Errorf("%d bytes are counted, %d were", got, before)
	}
	w.sessionPurged(t, x.ID)
	if got := w.drained(t); got != 0 {
		t.Errorf("%d bytes are counted once nothing is left", got)
	}
}

// Beyond its quota a tenant is told no news, and its endpoints are not tried: what it is about is in lists. Of its jobs it is told.
func TestNewsKeepToTheQuota(t *testing.T) {
	t.Parallel()
	const quota = 1 << 20
	w := newEndpointWorld(t)
	w.recordBytes = quota
	w.addEndpoints(t, job.MaxEndpoints-1)
	var events []Delivery
	for range 100 {
		_, event := w.endedSession(t)
		events = append(events, event)
	}
	id := endedWith(t, w.Store, "default", "").ID
	to := w.endpointIDs(t)
	for _, event := range events {
		if err := w.FanOut(t.Context(), event, to, w.pace); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.recorded(t); got > quota || got < quota*9/10 {
		t.Errorf("%d bytes are counted, the quota is %d", got, quota)
	}
	if n := w.rdb.ZCard(t.Context(), lastingDeliveriesKey("default")).Val(); n == 0 || n > quota/endpointDeliveryCost {
		t.Errorf("%d deliveries of news were made", n)
	}
	for _, did := range []string{events[99].ID, DeliveryID(events[99].Subject(), events[99].Event, to[len(to)-1])} {
		if _, err := w.GetDelivery(t.Context(), "default", did); !errors.Is(err, ErrNoDelivery) {
			t.Errorf("got %v, want no event left and no delivery beyond the quota", err)
		}
	}
	event, err := w.GetDelivery(t.Context(), "default", MessageID(id, job.EventCompleted))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.FanOut(t.Context(), event, to[:1], w.pace); err != nil {
		t.Fatal(err)
	}
	if _, err := w.GetDelivery(t.Context(), "default", DeliveryID(id, job.EventCompleted, to[0])); err != nil {
		t.Errorf("the end of a job: %v", err)
	}
}

// Tests of endpoints count for as long as they are kept, and there are none beyond the quota.
func TestTestsKeepToTheQuota(t *testing.T) {
	t.Parallel()
	const quota = 64 << 10
	w := newEndpointWorld(t)
	w.recordBytes = quota
	fill := func() (n int) {
		for ; ; n++ {
			did, err := w.TestEndpoint(t.Context(), "default", w.e.ID)
			if full(err, fmt.Sprintf("bytes_recorded (%d)", quota)) {
				return n
			}
			if err != nil || n > quota/endpointDeliveryCost {
				t.Fatalf("after %d tests: %v", n, err)
			}
			w.attempt(t, did, Delivered, 0)
		}
	}
	made := fill()
	if want := quota / (endpointDeliveryCost + deliveryCost); made < want {
		t.Errorf("%d tests were made, want %d at least", made, want)
	}
	w.now = w.now.Add(testLife)
	if n := w.rdb.Unlink(t.Context(), w.rdb.Keys(t.Context(), deliveryKey("default", "*")).Val()...).Val(); n != int64(made) { // as Redis does, by its own clock
		t.Errorf("%d deliveries are there, want %d", n, made)
	}
	if again := fill(); again != made {
		t.Errorf("a day later %d tests were made, want %d", again, made)
	}
}

// A host that callbacks went to leaves nothing behind where the last succeeded, and counts as long as it is remembered where it failed.
func TestHostsOfCallbacksCount(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	if err := w.DeleteEndpoint(t.Context(), "default", w.e.ID); err != nil {
		t.Fatal(err)
	}
	lanes := func() int { return len(w.rdb.Keys(t.Context(), script.Key("default", "lane:*")).Val()) }
	callback := func(host string) (id, did string) {
		url := "https://" + host + "/hook"
		j := endedWith(t, w.Store, "default", url)
		return j.ID, DeliveryID(j.ID, job.EventCompleted, url)
	}
	purge := func(id string) {
		t.Helper()
		if err := errors.Join(w.Purge(t.Context(), id), w.Purged(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
	id, did := callback("r1.example.com")
	w.attempt(t, did, Delivered, 0)
	purge(id)
	if n, counted := lanes(), w.recorded(t); n != 0 || counted != 0 {
		t.Errorf("after a success there are %d keys of lanes, %d bytes are counted; want none", n, counted)
	}

	// What is under way beside it keeps the window, which counts, whatever becomes of that.
	id, did = callback("r1.example.com")
	other, flies := callback("R1.example.com")
	d, err := w.take(t, did)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, flies); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	w.note(t, d, Delivered, 0)
	purge(id)
	purge(other)
	if n, counted := lanes(), w.recorded(t); n != 1 || counted != keyCost {
		t.Errorf("after one that was purged there are %d keys of lanes, %d bytes are counted; want one, %d", n, counted, keyCost)
	}
	id, did = callback("r1.example.com")
	w.attempt(t, did, Exhausted, 0)
	purge(id)
	if n, counted := lanes(), w.recorded(t); n != 1 || counted != keyCost {
		t.Errorf("after a failure there are %d keys of lanes, %d bytes are counted; want one, %d", n, counted, keyCost)
	}
	id, did = callback("r1.example.com")
	w.attempt(t, did, Delivered, 0)
	purge(id)
	if n, counted := lanes(), w.recorded(t); n != 0 || counted != 0 {
		t.Errorf("once it is back there are %d keys of lanes, %d bytes are counted; want none", n, counted)
	}

	for i := range 10 {
		id, did = callback(fmt.Sprintf("r%d.%s.example.com", i, strings.Repeat("x", 50)))
		w.attempt(t, did, Exhausted, 0)
		purge(id)
	}
	if n, counted := lanes(), w.recorded(t); n != 10 || counted != 10*keyCost {
		t.Errorf("after ten hosts that failed there are %d keys of lanes, %d bytes are counted", n, counted)
	}
	w.now = w.now.Add(laneLife)
	if counted := w.drained(t); counted != 0 {
		t.Errorf("two days later %d bytes are counted", counted)
	}
}
