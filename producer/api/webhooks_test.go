package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

func TestWebhookSecretOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token, _ := w.tenant(t, "acme", job.Terms{})
	tenant, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	defer tenant.Close()
	operator, err := producer.New(w.srv.URL, adminToken)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	ctx := t.Context()
	ofAcme, err := operator.TenantWebhooks(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}

	first, err := tenant.WebhookSecrets(ctx)
	if err != nil || len(first) != 1 {
		t.Fatalf("got %d secrets, %v, want 1", len(first), err)
	}
	if _, err := webhook.ParseSecret(first[0].Secret); err != nil {
		t.Error(err)
	}
	if seen, err := ofAcme.WebhookSecrets(ctx); err != nil || len(seen) != 1 || seen[0] != first[0] {
		t.Errorf("the operator sees another one: %v", err)
	}
	if keys, err := tenant.WebhookKeys(ctx); err != nil || len(keys) != 1 || keys[0] != first[0].WebhookKey {
		t.Errorf("keys: got %v, %v, want that of the secret", keys, err)
	}
	if a := w.do(t, "GET", "/v1/webhook-keys", http.NoBody, as(token)); strings.Contains(string(a.body), "whsec_") {
		t.Error("the list of public keys has a secret")
	}
	if a := w.do(t, "GET", "/v1/webhook-secret", http.NoBody, as(token)); a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control of a secret: got %q, want no-store", a.header.Get("Cache-Control"))
	}

	second, err := tenant.RotateWebhookSecret(ctx, producer.DefaultWebhookKeep)
	if err != nil || len(second) != 2 || second[1].Secret != first[0].Secret || second[1].ExpiresAt == nil {
		t.Fatalf("rotate: got %d secrets, %v, want a new one and the one before", len(second), err)
	}
	for name, rotate := range map[string]producer.Webhooks{"tenant": tenant, "operator": ofAcme} {
		_, err := rotate.RotateWebhookSecret(ctx, time.Hour)
		if !errors.Is(err, job.ErrRotating) || !strings.Contains(err.Error(), second[1].ExpiresAt.Format("2006-01-02T15:04")) {
			t.Errorf("%s, while two are valid: got %v, want ErrRotating and until when", name, err)
		}
	}
	if third, err := ofAcme.RotateWebhookSecret(ctx, 0); err != nil || len(third) != 1 || third[0].Secret == second[0].Secret {
		t.Errorf("operator, at once: got %d secrets, %v, want a new one", len(third), err)
	}

	for body, want := range map[string]int{
		"": 400, "{}": 200, `{"expire_seconds":86400}`: 409, `{"expire_seconds":604801}`: 422, `{"expire_seconds":-1}`: 422, `{"expire_seconds":18446744073709}`: 422,
		`{"expire_seconds":"1"}`: 422, `{"expires":1}`: 422, "[": 400,
	} {
		before := `{"expire_seconds":0}`
		if want == 409 { // another rotation is under way
			before = `{"expire_seconds":60}`
		}
		w.do(t, "POST", "/v1/webhook-secret/rotate", strings.NewReader(`{"expire_seconds":0}`), as(token))
		w.do(t, "POST", "/v1/webhook-secret/rotate", strings.NewReader(before), as(token))
		a := w.do(t, "POST", "/v1/webhook-secret/rotate", strings.NewReader(body), as(token))
		if a.status != want {
			t.Errorf("rotate with %q: got %d %s, want %d", body, a.status, a.body, want)
		}
		var list producer.WebhookSecretList
		if err := json.Unmarshal(a.body, &list); want == 200 && (err != nil || len(list.Secrets) != 2 || time.Until(*list.Secrets[1].ExpiresAt) < 23*time.Hour) {
			t.Errorf("rotate by default: got %d secrets, %v, want the old one for a day", len(list.Secrets), err)
		}
	}

	// The tenant that the settings name has no record, and a secret all the same.
	if a := w.admin(t, "GET", "/tenants/default/webhook-secret", ""); a.status != 200 || !strings.Contains(string(a.body), "whsec_") {
		t.Errorf("of default: got %d %s", a.status, a.body)
	}
	for _, name := range []string{"nobody", "no}body"} {
		if a := w.admin(t, "GET", "/tenants/"+name+"/webhook-secret", ""); a.status != 404 {
			t.Errorf("of %s: got %d %s, want 404", name, a.status, a.body)
		}
		if a := w.admin(t, "POST", "/tenants/"+name+"/webhook-secret/rotate", "{}"); a.status != 404 {
			t.Errorf("rotate that of %s: got %d %s, want 404", name, a.status, a.body)
		}
	}
	for _, s := range second {
		if strings.Contains(w.log.String(), s.Secret) {
			t.Error("the log holds a webhook secret")
		}
	}
}
