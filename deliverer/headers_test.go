package deliverer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestEndpointHeaders: messages have the headers of their endpoint. Nobody is told them, Redis has them sealed, and they are never
// sent to another host.
func TestEndpointHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in, callback := newInbox(t, nil), newInbox(t, nil)
	const secret = "Bearer hush-hush"
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL, Headers: map[string]string{"authorization": secret, "X-Team": "a b"}})
	change := func(c producer.EndpointChange) (job.Endpoint, error) {
		return b.Client.ChangeEndpoint(t.Context(), e.ID, c)
	}
	elsewhere, path, words := "https://example.com/", in.URL+"/path", "of ours"
	for _, c := range []producer.EndpointChange{{URL: &path}, {Description: &words}} {
		got, err := change(c)
		if err != nil || strings.Join(got.HeaderNames, " ") != "Authorization X-Team" || got.Headers != nil {
			t.Fatalf("got %+v, %v, want the names of its headers", got, err)
		}
	}
	if _, err := change(producer.EndpointChange{URL: &elsewhere}); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("got %v, want another host refused without headers for it", err)
	}
	id := b.ended(t)
	b.deliveredTo(t, id, e.ID, record.Delivered)
	if h := in.got()[0].header; h.Get("Authorization") != secret || h.Get("X-Team") != "a b" || verify(t, in.got()[0], e.Secret) != nil {
		t.Errorf("got %v, want its headers beside what signs", h)
	}
	_, did := b.end(t, callback.URL, nil)
	b.settled(t, did, record.Delivered)
	if h := callback.got()[0].header; h.Get("Authorization") != "" {
		t.Error("a callback got the endpoint's headers")
	}
	list, err := b.Client.ListEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told, err := json.Marshal(list)
	if stored := b.Raw.HGet(t.Context(), "gb:{default}:endpoints", e.ID).Val(); err != nil || strings.Contains(string(told)+stored, "hush-hush") || !strings.Contains(stored, "Authorization") {
		t.Errorf("stored is %s, told %s, %v", stored, told, err)
	}
	for name, value := range map[string]string{
		"Host": "x", "host": "x", "Content-Type": "text/plain", "Webhook-Id": "x", "webhook-signature": "v1,x", "Traceparent": "x", "Connection": "close", "Transfer-Encoding": "chunked",
		"User-Agent": "x", "Proxy-Authorization": "x", "X Y": "x", "": "x", "X-Y": "a\r\nWebhook-Id: 1", "X-Z": "", "X-A": "ä", "X-B": " a", "X-Long": strings.Repeat("x", 5000),
	} {
		headers := map[string]string{name: value}
		_, err := b.Client.CreateEndpoint(t.Context(), job.EndpointSettings{URL: in.URL, Headers: headers})
		if _, err2 := change(producer.EndpointChange{Headers: &headers}); job.CodeOf(err) != job.CodeInvalid || job.CodeOf(err2) != job.CodeInvalid {
			t.Errorf("%s: %.20q: got %v and %v", name, value, err, err2)
		}
	}
	none := map[string]string{}
	if got, err := change(producer.EndpointChange{URL: &elsewhere, Headers: &none}); err != nil || got.HeaderNames != nil {
		t.Errorf("got %+v, %v, want none", got, err)
	}
	if stored := b.Raw.HGet(t.Context(), "gb:{default}:endpoints", e.ID).Val(); strings.Contains(stored, "sealed") {
		t.Errorf("got %s, want them forgotten", stored)
	}
}

// TestHeadersOfAnotherKey: where the key is gone that headers were sealed with, the message fails at once, says why, and can be made
// again once they are given anew.
func TestHeadersOfAnotherKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	in := newInbox(t, nil)
	e := b.endpoint(t, job.EndpointSettings{URL: in.URL, Headers: map[string]string{"X-Key": "v"}})
	keys, err := hookkeys.Parse(hookkeys.New())
	if err != nil {
		t.Fatal(err)
	}
	b.config.Keys = keys
	b.run(t)
	id := b.ended(t)
	if d := b.deliveredTo(t, id, e.ID, record.Exhausted); len(in.got()) != 0 || !strings.Contains(d.LastError, "give them anew") {
		t.Errorf("got %+v and %d messages", d, len(in.got()))
	}
	none := map[string]string{}
	if _, err := b.Client.ChangeEndpoint(t.Context(), e.ID, producer.EndpointChange{Headers: &none}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.Redeliver(t.Context(), record.DeliveryID(id, job.EventCompleted, e.ID)); err != nil {
		t.Fatal(err)
	}
	b.deliveredTo(t, id, e.ID, record.Delivered)
}
