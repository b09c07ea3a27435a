package deliverer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestRecoverAll: an endpoint that is new is told of what has ended before, as the endpoint that was there has been told: in the
// same message, once, and of no more than it wants.
func TestRecoverAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, in := newInbox(t, nil), newInbox(t, nil)
	b.endpoint(t, job.EndpointSettings{URL: old.URL})
	b.run(t)
	began := time.Now()
	var wanted []string
	for n := range 5 {
		j, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Metadata: map[string]string{"odd": fmt.Sprint(n % 2)}})
		if err != nil {
			t.Fatal(err)
		}
		b.End(t, b.Start(t, j.ID), nil, nil)
		if n%2 == 1 {
			wanted = append(wanted, j.ID)
		}
	}
	batch, err := b.Client.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: job.BatchOptions{Metadata: map[string]string{"odd": "1"}}}, func(yield func(job.Spec, error) bool) {
		yield(job.Spec{Runtime: "python", Source: "1"}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.End(t, b.Start(t, job.ItemID(batch.ID, 0)), nil, nil)
	if _, err := b.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Metadata: map[string]string{"odd": "1"}}); err != nil { // it has not ended
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the old endpoint is told", func() bool { return len(old.got()) == 7 })
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL, Filter: &job.EndpointFilter{Metadata: map[string]string{"odd": "1"}}})
	all := producer.RecoverRequest{Since: began.Add(-time.Second), Which: producer.RecoverAll}
	later := producer.RecoverRequest{Since: time.Now().Add(time.Minute), Until: time.Now().Add(time.Hour), Which: producer.RecoverAll}
	for _, step := range []struct {
		ask  producer.RecoverRequest
		made int
	}{{later, 0}, {producer.RecoverRequest{Since: all.Since}, 0}, {all, 3}, {all, 0}} {
		if got, err := b.Client.RecoverEndpoint(t.Context(), e.ID, step.ask); err != nil || got.Deliveries != step.made || got.Next != "" {
			t.Fatalf("%+v: got %+v, %v, want %d", step.ask, got, err, step.made)
		}
	}
	gbtest.Eventually(t, "the new endpoint is told", func() bool { return len(in.got()) == 3 })
	before := map[string]string{}
	for _, m := range old.got() {
		before[m.header.Get("webhook-id")] = string(m.body)
	}
	ids := []string{record.MessageID(batch.ID, job.EventBatchCompleted)}
	for _, id := range wanted {
		ids = append(ids, record.MessageID(id, job.EventCompleted))
	}
	for _, m := range in.got() {
		id := m.header.Get("webhook-id")
		if before[id] != string(m.body) || !strings.Contains(strings.Join(ids, " "), id) || verify(t, m, e.Secret) != nil {
			t.Errorf("%s: got %s, want what the endpoint before got: %s", id, m.body, before[id])
		}
	}
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	for _, cursor := range []string{"x", "job.completed/", "job.completed/1", "batch.completed/0000000000000:other-b-abcdefghijklmnopqrstuvwxyz"} {
		all.Cursor = cursor
		if _, err := b.Client.RecoverEndpoint(t.Context(), e.ID, all); job.CodeOf(err) != job.CodeInvalid {
			t.Errorf("cursor %q: got %v", cursor, err)
		}
	}
}

// TestRecoverMuch: the past of more jobs than one request looks at is gone through by cursors, as far as there is room for records;
// what an endpoint did not take of it is made again.
func TestRecoverMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a thousand jobs")
	}
	t.Parallel()
	const n = 1050
	b := newBench(t)
	began := time.Now()
	for range n {
		b.ended(t)
	}
	in := newInbox(t, nil)
	off := b.endpoint(t, job.EndpointSettings{URL: "https://example.com/", Disabled: true})
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL, Events: []string{job.EventCompleted}})
	recorded, err := b.Raw.Get(t.Context(), "gb:{default}:recorded").Int64()
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := b.Client.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{BytesRecorded: recorded + 20_000}})
	if err != nil {
		t.Fatal(err)
	}
	ask := producer.RecoverRequest{Since: began.Add(-time.Second), Which: producer.RecoverAll}
	full, err := b.Client.RecoverEndpoint(t.Context(), e.ID, ask)
	if job.CodeOf(err) != job.CodeQuotaExceeded || full.Deliveries < 5 || full.Deliveries > 40 {
		t.Fatalf("got %+v, %v, want what there is room for", full, err)
	}
	if _, err := b.Client.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{}); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	made, pages := full.Deliveries, 0
	for more := true; more; {
		got, err := b.Client.RecoverEndpoint(t.Context(), e.ID, ask)
		if err != nil || got.Next == ask.Cursor && got.Next != "" {
			t.Fatalf("got %+v, %v", got, err)
		}
		made, pages = made+got.Deliveries, pages+1
		ask.Cursor = got.Next
		more = got.Next != ""
	}
	if made != n || pages != 2 {
		t.Errorf("got %d deliveries in %d answers, want %d in 2", made, pages, n)
	}
	gbtest.Eventually(t, "all are delivered", func() bool { return len(in.got()) >= n })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	seen := map[string]bool{}
	for _, m := range in.got() {
		seen[m.header.Get("webhook-id")] = true
	}
	if len(seen) != n || len(in.got()) != n {
		t.Errorf("got %d messages under %d ids, want %d", len(in.got()), len(seen), n)
	}
	ask.Cursor = ""
	for range 2 { // they fail at once, and are made again
		got, err := b.Client.RecoverEndpoint(t.Context(), off.ID, ask)
		if err != nil || got.Deliveries != 1000 {
			t.Fatalf("got %+v, %v, want as many as one answer looks at", got, err)
		}
		gbtest.Eventually(t, "they have failed", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:failed:"+off.ID).Val() == 1000 })
	}
}
