package deliverer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// latencies has n jobs end, one after the other, and returns how long each message took from
// then to an endpoint that counts them, sorted.
func (b *bench) latencies(t *testing.T, n int, in *inbox) []time.Duration {
	t.Helper()
	arrived := make(chan time.Time, n)
	in.mu.Lock()
	in.arrived = arrived
	in.mu.Unlock()
	all := make([]time.Duration, n)
	for i := range all {
		j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
		if err != nil {
			t.Fatal(err)
		}
		started := b.Start(t, j.ID)
		b.End(t, started, nil, nil)
		ended := time.Now()
		select {
		case at := <-arrived:
			all[i] = max(at.Sub(ended), 0)
		case <-time.After(2 * gbtest.AtOnce):
			t.Fatalf("message %d did not come", i)
		}
	}
	slices.Sort(all)
	return all
}

// dripping answers a byte at a time, for ever.
func dripping(t *testing.T) *httptest.Server {
	t.Helper()
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-tick.C:
				fmt.Fprint(w, ".")
				_ = rc.Flush() // the sender may have left
			case <-r.Context().Done():
				return
			case <-ended:
				return
			}
		}
	}))
	t.Cleanup(func() { close(ended); srv.Close() })
	return srv
}

// A live endpoint is told as fast beside five bad ones as alone.
func TestBadEndpointsBesideALiveOne(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	n := 200
	if testing.Short() {
		n = 60
	}
	b := newBench(t)
	b.config.Schedule, b.config.Log = webhook.DefaultSchedule(), nil
	b.config.Sender, b.config.Grace = b.sender(t, timeout), 50*time.Millisecond
	b.run(t)
	live := newInbox(t, nil)
	b.endpoint(t, job.EndpointSettings{URL: live.URL})
	b.latencies(t, 20, live) // connections are open, scripts are loaded
	alone := b.latencies(t, n, live)

	port, _, come := hanging(t)
	redirects := newInbox(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", live.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	began := time.Now()
	for _, url := range []string{
		"http://127.0.0.1:" + port, "http://" + gbtest.Addr(t), newInbox(t, status(http.StatusInternalServerError)).URL, redirects.URL, dripping(t).URL,
	} {
		b.endpoint(t, job.EndpointSettings{URL: url})
	}
	beside := b.latencies(t, n, live)
	t.Logf("alone: median %s, 95 %% %s; beside five bad ones: median %s, 95 %% %s", alone[n/2], alone[n*95/100], beside[n/2], beside[n*95/100])
	// Five attempts more for each message are work: on a busy machine it takes twice as long. Behind an attempt that hangs it would take the time-out.
	if most := alone[n/2] + 10*time.Second; beside[n/2] > most {
		t.Errorf("got a median of %s beside five bad endpoints, want at most %s", beside[n/2], most)
	}
	// How many are under way the endpoint can't tell: it may hear late that one was given up, and the next has come.
	got := come()
	if most := 1 + int(time.Since(began)/timeout); got > most {
		t.Errorf("%d attempts came to an endpoint that never answered, want one after the other: at most %d", got, most)
	}
}

// Two thousand messages, or half of them, that are there at once reach one healthy endpoint without a pause.
func TestBurstToOneEndpoint(t *testing.T) {
	t.Parallel()
	n, most := 2000, 240*time.Second // in asynq's retry set, looked at every 2 s, it would be 16 every 2 s: 250 s
	if testing.Short() {
		n, most = n/2, most/2
	}
	b := newBench(t)
	b.config.Log = nil
	in := newInbox(t, nil)
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL})
	jobID := b.ended(t)
	// What an event makes, of one job under other ids: as many jobs would take longer to end.
	key := func(rest string) string { return "gb:{default}:" + rest }
	pipe, now := b.Raw.Pipeline(), time.Now().UnixMilli()
	for i := range n {
		id := fmt.Sprintf("msg_%026d", i)
		pipe.HSet(t.Context(), key("delivery:"+id), "job", jobID, "event", job.EventCompleted, "state", "pending", "attempt", 1, "backlog", 0, "endpoint", e.ID, "created", now, "due", now)
		pipe.ZAdd(t.Context(), key("failed:"+e.ID), z(float64(now), id))
		pipe.HSet(t.Context(), key("delivery:"+id), "state", "failed")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	b.deliveredTo(t, jobID, e.ID, record.Delivered)
	began := time.Now()
	if got, err := b.recovered(t, e.ID, time.Now().Add(-time.Hour)); err != nil || got != n {
		t.Fatalf("got %d, %v, want %d deliveries made again", got, err, n)
	}
	gbtest.Eventually(t, "all are delivered", func() bool { return len(in.got()) >= n+1 })
	took := time.Since(began)
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), key("outbox")).Val() == 0 })
	t.Logf("%d messages in %s: %.0f a second", n, took, float64(n)/took.Seconds())
	if took > most {
		t.Errorf("%d messages took %s", n, took)
	}
	if got := len(in.got()); got != n+1 {
		t.Errorf("got %d messages, want each once: %d", got, n+1)
	}
}
