package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// hasTask reports whether there is a task for the delivery as it is now, due by then.
func (w *endpointWorld) hasTask(t *testing.T, did string, by time.Time) bool {
	t.Helper()
	d, err := w.GetDelivery(t.Context(), "default", did)
	if err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(w.rdb)
	var tasks []*asynq.TaskInfo
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){inspector.ListPendingTasks, inspector.ListScheduledTasks} {
		for of := range queue.Deliveries() {
			some, err := list(of, asynq.PageSize(1000))
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				t.Fatal(err)
			}
			tasks = append(tasks, some...)
		}
	}
	for _, task := range tasks {
		var of queue.Deliver
		if err := json.Unmarshal(task.Payload, &of); err != nil {
			t.Fatal(err)
		}
		if of.ID == did && of.Turn == (queue.Turn{Attempt: d.Attempt, Waits: d.Waits}) && (task.State == asynq.TaskStatePending || !task.NextProcessAt.After(by)) {
			return true
		}
	}
	return false
}

// handled ends all tasks, as handlers do whose deliveries wait.
func (w *endpointWorld) handled(t *testing.T) {
	t.Helper()
	if _, err := asynq.NewInspectorFromRedisClient(w.rdb).DeleteAllPendingTasks(queue.Delivery); err != nil {
		t.Fatal(err)
	}
}

// purged has the job of a delivery purged.
func (w *endpointWorld) purged(t *testing.T, did string) {
	t.Helper()
	d, err := w.GetDelivery(t.Context(), "default", did)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Purge(t.Context(), d.JobID); err != nil {
		t.Fatal(err)
	}
}

// The place of a delivery whose job is purged is the next one's at once.
func TestPurgeReleasesTheNext(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	flying, waits := w.event(t), w.event(t)
	if _, err := w.take(t, flying); err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, waits); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	w.handled(t)
	w.purged(t, flying)
	if !w.hasTask(t, waits, time.Now()) {
		t.Error("the next has no task once the one before it is purged")
	}
	w.attempt(t, waits, Delivered, 0)
}

// So is that of a delivery whose record is gone, once its task finds that out.
func TestMissingReleasesTheNext(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	flying, waits := w.event(t), w.event(t)
	d, err := w.take(t, flying)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, waits); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	w.handled(t)
	if err := w.rdb.Del(t.Context(), deliveryKey("default", flying)).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.TakeDelivery(t.Context(), "default", flying, queue.Turn{Attempt: d.Attempt, Waits: d.Waits}, w.pace); !errors.Is(err, ErrNoDelivery) {
		t.Fatalf("got %v, want no such delivery", err)
	}
	if !w.hasTask(t, waits, time.Now()) {
		t.Error("the next has no task once the one before it is missing")
	}
	w.attempt(t, waits, Delivered, 0)
}

// paused has attempts fail until the endpoint is paused, and a delivery wait for the end of that.
func (w *endpointWorld) paused(t *testing.T) (waits string) {
	t.Helper()
	w.now = w.now.Add(time.Hour) // asynq's clock is the real one, and must not come to the end of the pause while the test runs
	for range 3 {
		w.attempt(t, w.event(t), Exhausted, 0)
	}
	waits = w.event(t)
	next := w.health(t).NextAt
	if next == nil {
		t.Fatal("the endpoint is not paused")
	}
	w.waits(t, waits, *next)
	return waits
}

// waits fails unless the delivery of a new event waits for the end of a pause: the task that it would have had without that is
// refused, and the one that it has is for then.
func (w *endpointWorld) waits(t *testing.T, did string, end time.Time) {
	t.Helper()
	if _, err := w.TakeDelivery(t.Context(), "default", did, queue.Turn{Attempt: 1}, w.pace); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v within a pause, want it to wait", err)
	}
	if w.hasTask(t, did, w.now) || !w.hasTask(t, did, end.Add(time.Second)) { // asynq counts seconds
		t.Fatalf("want a task for the end of the pause, %s", end)
	}
}

// An endpoint that is enabled is sent at once what waited for it.
func TestEnableReleasesAtOnce(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	waits := w.paused(t)
	if err := w.ChangeEndpoint(t.Context(), "default", w.e.ID, true, func(*EndpointSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if !w.hasTask(t, waits, time.Now()) {
		t.Error("what waits for an endpoint has no task when it is enabled")
	}
	w.attempt(t, waits, Delivered, 0)
}

// A delivery that is pending and asked for again begins its schedule and its patience anew.
func TestRedeliverPendingBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	did, other := w.event(t), w.event(t)
	w.attempt(t, did, Pending, 100*time.Hour)
	if _, err := w.take(t, other); err != nil { // it has the lane's only place
		t.Fatal(err)
	}
	w.now = w.now.Add(w.pace.Patience + time.Hour)
	if _, err := w.rdb.ZAdd(t.Context(), endpointLaneKey("default", w.e.ID)+":flight", zAt(w.now.Add(attemptLife), other)).Result(); err != nil {
		t.Fatal(err)
	}
	if words, err := w.Redeliver(t.Context(), "default", []string{did}); err != nil || words[0] != RedeliverOK {
		t.Fatalf("got %v, %v, want it due", words, err)
	}
	if _, err := w.take(t, did); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait: it was asked for just now", err)
	}
	if d, err := w.GetDelivery(t.Context(), "default", did); err != nil || d.Before != d.Attempt-1 {
		t.Errorf("got %d attempts before attempt %d, %v: want the schedule to begin anew", d.Before, d.Attempt, err)
	}
}

// A delivery that was released for the end of a pause isn't being attempted: asked for again, its schedule begins anew.
func TestRedeliverInAPause(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	did := w.paused(t)
	w.now = w.now.Add(time.Second)
	if words, err := w.Redeliver(t.Context(), "default", []string{did}); err != nil || words[0] != RedeliverWaits {
		t.Fatalf("got %v, %v, want it to wait", words, err)
	}
	if asked := w.rdb.HGet(t.Context(), deliveryKey("default", did), "asked").Val(); asked != fmt.Sprint(ms(w.now)) {
		t.Errorf("asked for at %s, want %d", asked, ms(w.now))
	}
	w.now = *w.health(t).NextAt
	if _, err := w.take(t, did); err != nil {
		t.Fatal(err)
	}
	if words, err := w.Redeliver(t.Context(), "default", []string{did}); err != nil || words[0] != RedeliverFlying {
		t.Errorf("got %v, %v, want it to be attempted", words, err)
	}
}

// An endpoint that is disabled is probed again within the hour where the process died that probed it.
func TestProbeThatDies(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	w.attempt(t, w.event(t), Gone, 0) // 410
	w.now = w.now.Add(probeInterval)
	if _, err := w.take(t, w.event(t)); err != nil {
		t.Fatalf("got %v, want a probe", err)
	}
	w.now = w.now.Add(time.Hour)
	if _, err := w.take(t, w.event(t)); err != nil {
		t.Errorf("got %v, want another probe an hour after one that nobody told of", err)
	}
}

func zAt(at time.Time, member string) redis.Z { return redis.Z{Score: float64(ms(at)), Member: member} }

// A delivery that meets a fault of ours gives its place to the next while it waits, and is given up once it has waited for too long.
func TestPutOff(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	faulty, next := w.event(t), w.event(t)
	d, err := w.take(t, faulty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, next); !errors.Is(err, ErrNotDue) {
		t.Fatalf("got %v, want it to wait", err)
	}
	w.handled(t)
	first := d.Due
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil {
		t.Fatal(err)
	}
	if !w.hasTask(t, next, time.Now()) || !w.hasTask(t, faulty, w.now.Add(time.Minute+time.Second)) {
		t.Error("want a task at once for the next, and one in a minute for what met a fault")
	}
	w.attempt(t, next, Delivered, 0)
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil { // said twice
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Minute)
	if d, err = w.take(t, faulty); err != nil || d.Attempt != 1 || d.Waits != 1 || !d.Faulty.Equal(first) {
		t.Fatalf("got %+v, %v, want the first attempt, due first at %s", d, err, first)
	}
	w.now = w.now.Add(w.pace.Patience)
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); !errors.Is(err, ErrOverdue) {
		t.Errorf("got %v, want it given up after %s", err, w.pace.Patience)
	}
	o := Outcome{State: Exhausted, Problem: "ours", Told: true}
	if err := w.Attempted(t.Context(), d, o, w.pace); err != nil {
		t.Fatal(err)
	}
	d, err = w.GetDelivery(t.Context(), "default", faulty)
	if err != nil || d.State != Exhausted || len(d.Log) != 1 || d.Log[0].Error != "ours" || !d.Faulty.IsZero() {
		t.Errorf("got %+v, %v, want it told of", d, err)
	}
	if h := w.health(t); h.State != job.EndpointOK {
		t.Errorf("got %+v: a fault of ours is not the endpoint's", h)
	}
}

// A fault of ours at an endpoint that was disabled meanwhile does not have it tried before its day, unless it was the day's try.
func TestPutOffAtDisabled(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	d, err := w.take(t, w.event(t))
	if err != nil {
		t.Fatal(err)
	}
	day := w.now.Add(24 * time.Hour)
	if err := w.rdb.HSet(t.Context(), endpointLaneKey("default", w.e.ID), "disabled", ms(w.now), "pause", ms(day)).Err(); err != nil { // by another delivery's attempt
		t.Fatal(err)
	}
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil {
		t.Fatal(err)
	}
	if h := w.health(t); h.NextAt == nil || !h.NextAt.Equal(day.Truncate(time.Millisecond)) {
		t.Errorf("got %+v, want nothing tried before %s", h, day)
	}
	w.now = day
	if d, err = w.take(t, w.event(t)); err != nil {
		t.Fatal(err)
	}
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil {
		t.Fatal(err)
	}
	if h := w.health(t); h.NextAt == nil || h.NextAt.Sub(day).Round(time.Second) != time.Minute {
		t.Errorf("got %+v, want the try made again in a minute", h)
	}
	// Once the endpoint takes what it is sent nothing is left of the try.
	w.now = w.now.Add(time.Minute)
	w.attempt(t, d.ID, Delivered, 0)
	if n, err := w.rdb.HExists(t.Context(), endpointLaneKey("default", w.e.ID), "probe").Result(); err != nil || n {
		t.Errorf("got %t, %v: the delivery is still the day's try", n, err)
	}
}

// A delivery that is attempted as it still waited in its lane does not leave the lane's place to itself.
func TestAttemptedWaitsNoMore(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	waits := w.paused(t)
	lane := endpointLaneKey("default", w.e.ID)
	w.now = w.now.Add(24 * time.Hour)
	if err := w.rdb.ZAdd(t.Context(), lane+":waiting", zAt(w.now, waits)).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, waits); err != nil {
		t.Fatal(err)
	}
	if n, err := w.rdb.ZCard(t.Context(), lane+":waiting").Result(); err != nil || n != 0 {
		t.Errorf("got %d that wait, %v, want none", n, err)
	}
}

// What comes for an endpoint that has no room waits there from the start, without a task.
func TestEventWaitsWithoutTask(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	first := w.paused(t) // the one that is tried after the pause
	next := w.event(t)
	if w.hasTask(t, next, time.Now().Add(100*time.Hour)) {
		t.Error("a delivery that waits has a task")
	}
	if got := w.health(t).Waiting; got != 1 {
		t.Errorf("%d wait, want 1", got)
	}
	w.now = w.now.Add(5 * time.Minute)
	w.attempt(t, first, Delivered, 0)
	if !w.hasTask(t, next, time.Now()) {
		t.Error("what waits has no task when there is room")
	}
	w.attempt(t, next, Delivered, 0)
}
