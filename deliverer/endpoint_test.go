package deliverer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// inbox takes what is posted to it, and answers by answer, which counts from 1.
type inbox struct {
	*httptest.Server

	mu       sync.Mutex
	messages []message
	arrived  chan<- time.Time // if anybody measures
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

func newInbox(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *inbox {
	t.Helper()
	in := &inbox{}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender left
		}
		in.mu.Lock()
		in.messages = append(in.messages, message{r.Header, body})
		n, arrived := len(in.messages), in.arrived
		in.mu.Unlock()
		if arrived != nil {
			arrived <- time.Now()
		}
		if answer != nil {
			answer(n, w, r)
		}
	}))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) got() []message {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.messages)
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// endpoint makes one of the tenant default.
func (b *bench) endpoint(t *testing.T, s job.EndpointSettings) producer.NewEndpoint {
	t.Helper()
	e, err := b.Client.CreateEndpoint(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ended has a job end that has no callback, and returns its id.
func (b *bench) ended(t *testing.T) string {
	t.Helper()
	j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, j.ID), nil, nil)
	return j.ID
}

// deliveredTo waits until a delivery of a job to an endpoint is in the state.
func (b *bench) deliveredTo(t *testing.T, jobID, endpoint string, state record.DeliveryState) producer.Delivery {
	t.Helper()
	did := record.DeliveryID(jobID, job.EventCompleted, endpoint)
	b.settled(t, did, state)
	d, err := b.Client.GetDelivery(t.Context(), did)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func verify(t *testing.T, m message, secret string) error {
	t.Helper()
	v, err := webhook.ParseVerifiers(secret)
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Verify(m.header, m.body, v, webhook.DefaultTolerance, time.Now())
}

// An event goes to each endpoint that wants it, besides the job's own callback, under one
// message id and each endpoint's own signature.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	one, two, own := newInbox(t, nil), newInbox(t, nil), b.receiver(t, nil)
	first := b.endpoint(t, job.EndpointSettings{URL: one.URL})
	second := b.endpoint(t, job.EndpointSettings{URL: two.URL, Events: []string{job.EventCompleted}, Filter: &job.EndpointFilter{Metadata: map[string]string{"k": "v"}}})
	failures := b.endpoint(t, job.EndpointSettings{URL: two.URL + "/failures", Filter: &job.EndpointFilter{Statuses: []string{"failed"}}})
	batches := b.endpoint(t, job.EndpointSettings{URL: two.URL + "/batches", Events: []string{job.EventBatchCompleted}})

	j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Callback: &job.Callback{URL: own.URL}, Metadata: map[string]string{"k": "v", "l": "w"}})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, j.ID), nil, nil)
	d1, d2 := b.deliveredTo(t, j.ID, first.ID, record.Delivered), b.deliveredTo(t, j.ID, second.ID, record.Delivered)
	b.settled(t, record.DeliveryID(j.ID, job.EventCompleted, own.URL), record.Delivered)
	id := record.MessageID(j.ID, job.EventCompleted)
	m1, m2 := one.got()[0], two.got()[0]
	if d1.MessageID != id || d2.MessageID != id || m1.header.Get("webhook-id") != id || m2.header.Get("webhook-id") != id || string(m1.body) != string(m2.body) {
		t.Errorf("got %s and %s, %s and %s: want one message under %s", d1.MessageID, m1.header, d2.MessageID, m2.header, id)
	}
	for name, test := range map[string]struct {
		m     message
		key   string
		valid bool
	}{
		"first": {m1, first.Secret, true}, "first's public key": {m1, first.PublicKey, true}, "second": {m2, second.Secret, true},
		"another's": {m1, second.Secret, false}, "the tenant's": {m1, b.webhookSecrets(t, "default")[0].Secret, false},
	} {
		if err := verify(t, test.m, test.key); (err == nil) != test.valid {
			t.Errorf("%s: got %v, want valid %t", name, err, test.valid)
		}
	}
	var event struct {
		Type string
		Data job.Result
	}
	if err := json.Unmarshal(m1.body, &event); err != nil || event.Type != job.EventCompleted || event.Data.ID != j.ID {
		t.Errorf("got %s, %v", m1.body, err)
	}
	if len(d1.Attempts) != 1 || d1.Attempts[0].Status != 200 || d1.Attempts[0].State != "delivered" || d1.EndpointID != first.ID || d1.URL != one.URL {
		t.Errorf("got %+v, want one attempt, answered 200", d1)
	}
	all, err := b.Client.Deliveries(t.Context(), j.ID)
	if err != nil || len(all) != 3 {
		t.Errorf("got %+v, %v: want the deliveries to the callback and two endpoints", all, err)
	}

	// What a filter lets through no more is told to the others.
	other := b.ended(t)
	b.deliveredTo(t, other, first.ID, record.Delivered)
	if n := len(two.got()); n != 1 {
		t.Errorf("the second endpoint got %d messages, want 1", n)
	}

	// A batch is an event of its own.
	batch, err := b.Client.SubmitBatch(t.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		yield(job.Spec{Runtime: "python", Source: "1"}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, job.ItemID(batch.ID, 0)), nil, nil)
	for _, e := range []string{first.ID, batches.ID} {
		b.settled(t, record.DeliveryID(batch.ID, job.EventBatchCompleted, e), record.Delivered)
	}
	if _, err := b.Client.GetDelivery(t.Context(), record.DeliveryID(batch.ID, job.EventBatchCompleted, failures.ID)); err == nil {
		t.Error("an endpoint for failures is told of a batch that is completed")
	}
}

// Everything of an attempt can be seen, and a delivery that failed be made again under its id.
func TestAttemptsAndRedelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	var mu sync.Mutex
	well := false
	in := newInbox(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !well {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "it \x1b[31mbroke\x00\r\n\u202ehere")
		}
	})
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL})
	began := time.Now()
	ids := []string{b.ended(t), b.ended(t), b.ended(t)}
	for _, id := range ids {
		d := b.deliveredTo(t, id, e.ID, record.Exhausted)
		if d.Attempt != 3 || len(d.Attempts) != 3 || d.Attempts[2].Response != "it [31mbroke  here" || d.Attempts[2].Status != 500 || d.Attempts[0].NextAt == nil || d.Attempts[2].Error == "" {
			t.Errorf("got %+v, want three attempts and what was answered", d)
		}
	}
	page, err := b.Client.EndpointAttempts(t.Context(), e.ID, producer.AttemptOptions{Limit: 4})
	if err != nil || len(page.Attempts) != 4 || page.Next == "" || page.Attempts[0].At.Before(page.Attempts[3].At) {
		t.Fatalf("got %+v, %v: want the last four, the newest first", page, err)
	}
	rest, err := b.Client.EndpointAttempts(t.Context(), e.ID, producer.AttemptOptions{Cursor: page.Next})
	if err != nil || len(rest.Attempts) != 5 || rest.Next != "" || !slices.Contains(ids, rest.Attempts[0].JobID) {
		t.Errorf("got %+v, %v: want the five before these", rest, err)
	}
	if _, err := b.Client.EndpointAttempts(t.Context(), e.ID, producer.AttemptOptions{Cursor: "0-0"}); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("behind the last there is: got %v, want it refused", err)
	}
	if e, err := b.Client.GetEndpoint(t.Context(), e.ID); err != nil || e.Health.State != job.EndpointFailing || e.Health.FailingSince == nil || e.Health.LastStatus != 500 {
		t.Errorf("got %+v, %v, want it failing", e.Health, err)
	}

	mu.Lock()
	well = true
	mu.Unlock()
	d, err := b.Client.Redeliver(t.Context(), record.DeliveryID(ids[0], job.EventCompleted, e.ID))
	if err != nil || d.State != "pending" {
		t.Fatalf("got %+v, %v, want it pending", d, err)
	}
	d = b.deliveredTo(t, ids[0], e.ID, record.Delivered)
	if last := in.got()[9]; last.header.Get("webhook-id") != d.MessageID || d.Attempt != 4 || verify(t, last, e.Secret) != nil {
		t.Errorf("got %+v and %s, want the fourth attempt at %s", d, last.header, d.MessageID)
	}
	if n, err := b.recovered(t, e.ID, began); err != nil || n != 2 {
		t.Errorf("got %d, %v, want two that failed made again", n, err)
	}
	for _, id := range ids {
		b.deliveredTo(t, id, e.ID, record.Delivered)
	}
	if n, err := b.recovered(t, e.ID, began); err != nil || n != 0 {
		t.Errorf("got %d, %v, want none left", n, err)
	}
	if e, err := b.Client.GetEndpoint(t.Context(), e.ID); err != nil || e.Health.State != job.EndpointOK || e.Health.FailingSince != nil {
		t.Errorf("got %+v, %v, want it ok", e.Health, err)
	}
}

// A test is posted at once and once. It says whether the endpoint takes messages.
func TestTestEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	good, bad := newInbox(t, nil), newInbox(t, status(http.StatusTeapot))
	for in, want := range map[*inbox]record.DeliveryState{good: record.Delivered, bad: record.Exhausted} {
		e := b.endpoint(t, job.EndpointSettings{URL: in.URL})
		d, err := b.Client.TestEndpoint(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		b.settled(t, d.ID, want)
		got := in.got()
		if len(got) != 1 || verify(t, got[0], e.Secret) != nil {
			t.Fatalf("got %d messages, want one, signed", len(got))
		}
		var event struct {
			Type string
			Data struct {
				EndpointID string `json:"endpoint_id"`
			}
		}
		if err := json.Unmarshal(got[0].body, &event); err != nil || event.Type != job.EventEndpointTest || event.Data.EndpointID != e.ID {
			t.Errorf("got %s, %v", got[0].body, err)
		}
	}
}

// While a secret is rotated both sign, and the old one stops by itself.
func TestEndpointRotation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in := newInbox(t, nil)
	e, other := b.endpoint(t, job.EndpointSettings{URL: in.URL}), b.endpoint(t, job.EndpointSettings{URL: "https://example.com", Disabled: true})
	list, err := b.Client.RotateEndpointSecret(t.Context(), e.ID, time.Hour)
	if err != nil || len(list) != 2 || list[1].Secret != e.Secret || list[0].Secret == e.Secret {
		t.Fatalf("got %d secrets, %v, want a new one and the old one", len(list), err)
	}
	id := b.ended(t)
	b.deliveredTo(t, id, e.ID, record.Delivered)
	for _, s := range list {
		if err := verify(t, in.got()[0], s.Secret); err != nil {
			t.Errorf("got %v, want both secrets to sign", err)
		}
	}
	if _, err := b.Client.RotateEndpointSecret(t.Context(), e.ID, time.Hour); job.CodeOf(err) != job.CodeRotating {
		t.Errorf("got %v, want it refused while two are valid", err)
	}
	if got, err := b.Client.EndpointSecrets(t.Context(), other.ID); err != nil || len(got) != 1 || got[0].Secret != other.Secret {
		t.Errorf("got %d secrets, %v: another endpoint's is not rotated", len(got), err)
	}
	if list := b.webhookSecrets(t, "default"); len(list) != 1 {
		t.Errorf("the tenant has %d secrets, want its own left alone", len(list))
	}
}

// One that is disabled or deleted is sent nothing; what failed meanwhile can be recovered.
func TestDisabledAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in := newInbox(t, nil)
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL, Disabled: true})
	id := b.ended(t)
	if d := b.deliveredTo(t, id, e.ID, record.Exhausted); d.LastError == "" || len(d.Attempts) != 0 || len(in.got()) != 0 {
		t.Errorf("got %+v, want no attempt, and why", d)
	}
	enabled := false
	if e, err := b.Client.ChangeEndpoint(t.Context(), e.ID, producer.EndpointChange{Disabled: &enabled}); err != nil || e.Health.State != job.EndpointOK {
		t.Errorf("got %+v, %v, want it enabled", e, err)
	}
	if n, err := b.recovered(t, e.ID, time.Now().Add(-time.Hour)); err != nil || n != 1 {
		t.Errorf("got %d, %v, want one", n, err)
	}
	b.deliveredTo(t, id, e.ID, record.Delivered)
	if err := b.Client.DeleteEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.Redeliver(t.Context(), record.DeliveryID(id, job.EventCompleted, e.ID)); job.CodeOf(err) != job.CodeNotFound {
		t.Errorf("got %v, want no delivery to an endpoint that is deleted", err)
	}
	b.ended(t)
	for _, key := range []string{"endpoints", "wants", "lane:" + e.ID, "attempts:" + e.ID, "failed:" + e.ID} {
		if n := b.Raw.Exists(t.Context(), "gb:{default}:"+key).Val(); n != 0 {
			t.Errorf("%s is left of a deleted endpoint", key)
		}
	}
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
}

// recovered is how many deliveries that failed since then are made once more.
func (b *bench) recovered(t *testing.T, endpoint string, since time.Time) (int, error) {
	t.Helper()
	made, err := b.Client.RecoverEndpoint(t.Context(), endpoint, producer.RecoverRequest{Since: since})
	return made.Deliveries, err
}
