package deliverer_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/deliverer"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/webhook"
)

// bench is a deliverer at work, and jobs that end.
type bench struct {
	*producertest.Env
	config deliverer.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Env: producertest.New(t, "")}
	b.Runtimes(t)
	b.config = deliverer.Config{
		Records: b.Records, Client: b.Client, Links: b.Links, Sender: b.sender(t, time.Minute), Keys: b.WebhookKeys,
		Schedule: schedule(0, 10*time.Millisecond, 10*time.Millisecond), Interval: 10 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return b
}

// sender may go to loopback.
func (b *bench) sender(t *testing.T, timeout time.Duration) *webhook.Sender {
	t.Helper()
	loopback, err := webhook.ParseTarget("127.0.0.0/8:*")
	if err != nil {
		t.Fatal(err)
	}
	sender := webhook.New(webhook.Config{Guard: webhook.NewGuard(webhook.GuardConfig{Allow: []webhook.Target{loopback}}), Timeout: timeout})
	t.Cleanup(sender.Close)
	return sender
}

func schedule(delays ...time.Duration) webhook.Schedule { return webhook.Schedule{Delays: delays} }

// run starts a deliverer, which ends with the test or when stop is called.
func (b *bench) run(t *testing.T) (stop func()) {
	t.Helper()
	d, err := deliverer.New(b.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// verifiers are what a tenant knows: a receiver of its verifies with the first.
func (b *bench) verifiers(t *testing.T, tenant string) []webhook.Verifier {
	t.Helper()
	var list []webhook.Verifier
	for _, s := range b.webhookSecrets(t, tenant) {
		secret, err := webhook.ParseSecret(s.Secret)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, secret)
	}
	return list
}

func (b *bench) webhookSecrets(t *testing.T, tenant string) []producer.WebhookSecret {
	t.Helper()
	secrets, err := b.Client.For(tenant).WebhookSecrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// end has a job end whose callback is url, and returns its delivery's id.
func (b *bench) end(t *testing.T, url string, change func(*job.Result)) (jobID, deliveryID string) {
	t.Helper()
	return b.endOf(t, "default", url, change)
}

// endOf has a job of a tenant end.
func (b *bench) endOf(t *testing.T, tenant, url string, change func(*job.Result)) (jobID, deliveryID string) {
	t.Helper()
	j, err := b.Client.For(tenant).Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Callback: &job.Callback{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, j.ID), nil, change)
	return j.ID, record.DeliveryID(j.ID, job.EventCompleted, url)
}

// settled returns the delivery once it is in the state.
func (b *bench) settled(t *testing.T, id string, state record.DeliveryState) record.Delivery {
	t.Helper()
	return b.settledOf(t, "default", id, state)
}

func (b *bench) settledOf(t *testing.T, tenant, id string, state record.DeliveryState) record.Delivery {
	t.Helper()
	var d record.Delivery
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if d, err = b.Records.GetDelivery(t.Context(), tenant, id); err == nil && d.State == state {
			return d
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, %v, want state %s", d, err, state)
		}
	}
}

// receiver verifies each message and answers as answer says.
type receiver struct {
	*httptest.Server

	answer func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1

	mu     sync.Mutex
	ids    []string
	bodies [][]byte
	times  []time.Time
}

func (b *bench) receiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{answer: answer}
	verifiers := b.verifiers(t, "default")
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = webhook.Verify(r.Header, body, verifiers, webhook.DefaultTolerance, time.Now())
		}
		if err != nil {
			t.Errorf("verify: %v", err)
		}
		rec.mu.Lock()
		rec.ids, rec.bodies, rec.times = append(rec.ids, r.Header.Get("webhook-id")), append(rec.bodies, body), append(rec.times, time.Now())
		n := len(rec.ids)
		rec.mu.Unlock()
		if rec.answer != nil {
			rec.answer(n, w, r)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

// same checks that every message had this id and one body, and returns the body.
func (r *receiver) same(t *testing.T, id string, n int) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) != n {
		t.Fatalf("got %d messages, want %d", len(r.ids), n)
	}
	for i := range r.ids {
		if r.ids[i] != id || string(r.bodies[i]) != string(r.bodies[0]) {
			t.Errorf("message %d: got id %s and body %.80s, want %s and the first body", i, r.ids[i], r.bodies[i], id)
		}
	}
	return r.bodies[0]
}
