package direct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/webhook"
)

// A callback to an address that the guard never lets through is refused with the job, and with
// the batch; what was accepted before stays accepted.
func TestCallbackAddress(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	hooks, err := webhook.ParseTarget("10.1.2.3:8080")
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := direct.New(direct.Config{Guard: webhook.NewGuard(webhook.GuardConfig{Allow: []webhook.Target{hooks}})}, w.Records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guarded.Close() })
	spec := func(url, key string) job.Spec {
		return job.Spec{Runtime: "bash", Source: "true", IdempotencyKey: key, Callback: &job.Callback{URL: url}}
	}
	for _, url := range []string{"https://example.com/", "http://localhost:9000/", "https://8.8.8.8/", "http://10.1.2.3:8080/"} {
		if _, err := guarded.Submit(t.Context(), spec(url, "")); err != nil {
			t.Errorf("%s: got %v, want it accepted", url, err)
		}
	}
	const inside = "http://169.254.169.254/latest"
	want := job.Invalid{{
		Field: "callback.url", Value: inside, Message: "the address 169.254.169.254 is not allowed: webhooks go to public addresses, ports 80, 443",
		Allowed: "a host name, a public address, or one that the operator allows",
	}}
	refused := func(what string, err error) {
		t.Helper()
		var got job.Invalid
		errors.As(err, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	_, err = guarded.Submit(t.Context(), spec(inside, ""))
	refused("a job", err)
	one := func(url string) func(yield func(job.Spec, error) bool) {
		return func(yield func(job.Spec, error) bool) { yield(spec(url, ""), nil) }
	}
	_, err = guarded.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: job.BatchOptions{Callback: &job.Callback{URL: inside}}}, one("https://example.com/"))
	refused("a batch", err)
	b, err := guarded.SubmitBatch(t.Context(), producer.BatchOptions{}, one(inside))
	if err != nil || b.Rejected != 1 || len(b.Errors) != 1 || !strings.Contains(b.Errors[0].Message, "169.254.169.254 is not allowed") {
		t.Errorf("a job of a batch: got %+v, %v, want it rejected", b, err)
	}

	// A client that doesn't know what the operator allows leaves it to the deliverer.
	first, err := w.Client.Submit(t.Context(), spec(inside, "once"))
	if err != nil {
		t.Fatalf("without a guard: %v", err)
	}
	if again, err := guarded.Submit(t.Context(), spec(inside, "once")); err != nil || again.ID != first.ID {
		t.Errorf("what was accepted before: got %s, %v, want %s", again.ID, err, first.ID)
	}
}

// TestEndpointNoLongerAllowed: an endpoint that leads to a host that its tenant may not use any more can be changed and disabled, and neither enabled
// nor led to another such host.
func TestEndpointNoLongerAllowed(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	tenant, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.Client.CreateEndpoint(t.Context(), job.EndpointSettings{URL: "https://example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{CallbackHosts: []string{"elsewhere.example"}}); err != nil {
		t.Fatal(err)
	}
	disabled, enabled, other, long := true, false, "https://example.com/other", strings.Repeat("x", job.MaxEndpointDescription+1)
	description := "rests"
	for _, tt := range []struct {
		change producer.EndpointChange
		field  string // that is refused
	}{
		{producer.EndpointChange{Description: &description}, ""},
		{producer.EndpointChange{Disabled: &disabled}, ""},
		{producer.EndpointChange{Description: &long}, "description"},
		{producer.EndpointChange{URL: &other}, "url"},
		{producer.EndpointChange{Disabled: &enabled}, "url"},
	} {
		_, err := w.Client.ChangeEndpoint(t.Context(), e.ID, tt.change)
		field := ""
		if invalid := (job.Invalid{}); errors.As(err, &invalid) {
			field, err = invalid[0].Field, nil
		}
		if err != nil || field != tt.field {
			t.Errorf("%+v: got %q refused, %v, want %q", tt.change, field, err, tt.field)
		}
	}
	if got, err := w.Client.GetEndpoint(t.Context(), e.ID); err != nil || !got.Disabled || got.Description != description || got.URL != e.URL {
		t.Errorf("got %+v, %v, want it disabled", got, err)
	}
}
