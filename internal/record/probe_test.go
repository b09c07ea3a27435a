package record

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// disabled has the endpoint disabled by a message that is the next day's try, and returns its delivery.
func (w *endpointWorld) disabled(t *testing.T) (did string) {
	t.Helper()
	w.attempt(t, w.event(t), Gone, 0) // 410
	w.now = w.now.Add(probeInterval)
	did = w.event(t)
	w.attempt(t, did, Pending, time.Minute)
	if d, err := w.GetDelivery(t.Context(), "default", did); err != nil || !d.Due.Equal(w.now.Add(probeInterval)) {
		t.Fatalf("got %+v, %v: want it to be the next day's try", d, err)
	}
	return did
}

// The message that was put off for a disabled endpoint's next try is that try also for an api whose clock is behind.
func TestProbeBeforeItsTime(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	probe := w.disabled(t)
	w.now = w.now.Add(probeInterval - 2*time.Second)
	if _, err := w.take(t, probe); err != nil {
		t.Fatalf("got %v, want the day's try", err)
	}
	if _, err := w.take(t, w.event(t)); err == nil {
		t.Error("another is tried, too")
	}
}

// A message that waited in its lane as the endpoint was disabled is the next day's try like any other: a fault of
// ours has it tried again, and is not the day's try.
func TestReleasedProbe(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	fails, waits := w.event(t), w.event(t)
	d, err := w.take(t, fails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.take(t, waits); err == nil {
		t.Fatal("it does not wait")
	}
	w.note(t, d, Gone, 0)
	w.now = w.now.Add(probeInterval)
	if d, err = w.take(t, waits); err != nil {
		t.Fatal(err)
	}
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil {
		t.Fatal(err)
	}
	if h := w.health(t); h.NextAt == nil || h.NextAt.Sub(w.now).Round(time.Second) != time.Minute {
		t.Errorf("got %+v, want the try made again in a minute", h)
	}
}

// How long a disabled endpoint's try may wait for a fault of ours to pass counts from its day on: before that it
// waited for its endpoint.
func TestOldProbeMeetsFault(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	probe := w.disabled(t)
	for range 5 { // failed tries, one a day: it is older than its patience
		w.now = w.now.Add(probeInterval)
		w.attempt(t, probe, Pending, time.Minute)
	}
	w.now = w.now.Add(probeInterval)
	d, err := w.take(t, probe)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err != nil {
		t.Fatalf("got %v, want it tried again", err)
	}
	w.now = w.now.Add(time.Minute)
	if d, err = w.take(t, probe); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(w.pace.Patience)
	if err := w.PutOff(t.Context(), d, time.Minute, w.pace); err == nil {
		t.Error("it is put off for ever")
	}
}

// A message that is kept for the next day's try goes at once where its endpoint is enabled, and may wait for room then.
func TestEnableSendsTheProbe(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t)
	probe := w.disabled(t)
	if err := w.ChangeEndpoint(t.Context(), "default", w.e.ID, true, func(*EndpointSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if !w.hasTask(t, probe, time.Now()) {
		t.Error("it has no task of now")
	}
	if d, err := w.GetDelivery(t.Context(), "default", probe); err != nil || d.Due.After(w.now) {
		t.Errorf("got %+v, %v: want it due", d, err)
	}
	w.attempt(t, probe, Delivered, 0)
	if h := w.health(t); h.State != job.EndpointOK {
		t.Errorf("got %+v", h)
	}
}
