package deliverer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// message is one as it came.
type message struct {
	header http.Header
	body   []byte
}

// delivered has a job of the tenant end, and returns what its endpoint got.
func (b *bench) delivered(t *testing.T, tenant string) message {
	t.Helper()
	came := make(chan message, 4)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		came <- message{r.Header.Clone(), body}
	}))
	defer hook.Close()
	_, id := b.endOf(t, tenant, hook.URL, nil)
	b.settledOf(t, tenant, id, record.Delivered)
	return <-came
}

// What a tenant was sent, and what it can sign with all that it knows, is nothing to the
// endpoint of another one.
func TestTenantsCannotForge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	acmes := b.delivered(t, "acme")
	handled := 0
	receiver := func(verifiers []webhook.Verifier) http.Handler {
		return webhook.Handler(verifiers, func(context.Context, webhook.Event) error { handled++; return nil })
	}
	post := func(to http.Handler, m message) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(m.body))
		r.Header = m.header
		w := httptest.NewRecorder()
		to.ServeHTTP(w, r)
		return w.Code
	}
	secret, err := webhook.ParseSecret(b.webhookSecrets(t, "acme")[0].Secret)
	if err != nil {
		t.Fatal(err)
	}
	forged := message{body: acmes.body}
	if forged.header, err = webhook.Sign([]webhook.Signer{secret}, "msg_forged", time.Now(), forged.body); err != nil {
		t.Fatal(err)
	}
	public := func(tenant string) []webhook.Verifier {
		key, err := webhook.ParsePublicKey(b.webhookSecrets(t, tenant)[0].PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		return []webhook.Verifier{key}
	}
	for name, to := range map[string]func(tenant string) []webhook.Verifier{
		"with a secret":       func(tenant string) []webhook.Verifier { return b.verifiers(t, tenant) },
		"with a public key":   public,
		"with both":           func(tenant string) []webhook.Verifier { return append(b.verifiers(t, tenant), public(tenant)...) },
		"with all that holds": func(tenant string) []webhook.Verifier { return append(public(tenant), b.verifiers(t, tenant)...) },
	} {
		handled = 0
		if status := post(receiver(to("acme")), acmes); status != http.StatusNoContent || handled != 1 {
			t.Errorf("%s: its own message: got %d, want 204", name, status)
		}
		handled = 0
		for what, m := range map[string]message{"replayed": acmes, "forged": forged} {
			if status := post(receiver(to("other")), m); status != http.StatusUnauthorized || handled != 0 {
				t.Errorf("%s: %s at another tenant's endpoint: got %d, want 401", name, what, status)
			}
		}
	}
	if status := post(receiver(public("acme")), forged); status != http.StatusUnauthorized {
		t.Errorf("forged with the secret, against the public key: got %d, want 401", status)
	}
}

// Receivers that hold what was valid before a rotation go on until it expires, each
// rotation changes all, and two at a time is the most there are.
func TestRotateWebhookSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	acme := b.Client.For("acme")
	accepts := func(s producer.WebhookSecret, m message) bool {
		t.Helper()
		var verdicts []bool
		for _, text := range []string{s.Secret, s.PublicKey} {
			verifiers, err := webhook.ParseVerifiers(text)
			if err != nil {
				t.Fatal(err)
			}
			verdicts = append(verdicts, webhook.Verify(m.header, m.body, verifiers, webhook.DefaultTolerance, time.Now()) == nil)
		}
		if verdicts[0] != verdicts[1] {
			t.Errorf("secret and key disagree: %v", verdicts)
		}
		return verdicts[0]
	}
	first := b.webhookSecrets(t, "acme")
	if len(first) != 1 || first[0].ExpiresAt != nil {
		t.Fatalf("before a rotation: got %d secrets, want one", len(first))
	}
	began := time.Now()
	second, err := acme.RotateWebhookSecret(t.Context(), time.Hour)
	if err != nil || len(second) != 2 || second[0].ExpiresAt != nil || second[1].Secret != first[0].Secret || second[1].PublicKey != first[0].PublicKey {
		t.Fatalf("got %d secrets, %v, want a new one and the one before", len(second), err)
	}
	if lasts := second[1].ExpiresAt.Sub(began); lasts < 59*time.Minute || time.Until(*second[1].ExpiresAt) > time.Hour {
		t.Errorf("the old one expires after %s, want an hour", lasts)
	}
	m := b.delivered(t, "acme")
	if !accepts(first[0], m) || !accepts(second[0], m) {
		t.Error("while two are valid, each message is signed by both")
	}
	if got := strings.Fields(m.header.Get(webhook.HeaderSignature)); len(got) != 4 || !strings.HasPrefix(got[1], "v1,") || !strings.HasPrefix(got[2], "v1a,") {
		t.Errorf("got signatures %v, want two of v1, then two of v1a", got)
	}
	if _, err := acme.RotateWebhookSecret(t.Context(), time.Hour); !errors.Is(err, job.ErrRotating) {
		t.Errorf("a third: got %v, want ErrRotating", err)
	}
	third, err := acme.RotateWebhookSecret(t.Context(), 0)
	if err != nil || len(third) != 1 || third[0].Secret == second[0].Secret {
		t.Fatalf("at once: got %d secrets, %v, want a new one alone", len(third), err)
	}
	m = b.delivered(t, "acme")
	if !accepts(third[0], m) || accepts(second[0], m) || accepts(first[0], m) {
		t.Error("after a rotation at once only the new one signs")
	}
	if others := b.webhookSecrets(t, "other"); len(others) != 1 || others[0].Secret == first[0].Secret {
		t.Error("another tenant's secret is the same, or changed")
	}

	// What expired signs no more, by the clock and not by a second step.
	if _, err := acme.RotateWebhookSecret(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(b.webhookSecrets(t, "acme")) == 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("two are valid after 10 s, want 1 s")
		}
	}
	if m = b.delivered(t, "acme"); accepts(third[0], m) {
		t.Error("what has expired signs")
	}
	// Redis holds no secret: nothing in it is, or holds, one that was ever shown.
	for _, key := range b.Raw.Keys(t.Context(), "gb:*webhook*").Val() {
		for field, value := range b.Raw.HGetAll(t.Context(), key).Val() {
			if field != "generation" && field != "previous_until" || strings.Trim(value, "0123456789") != "" {
				t.Errorf("%s holds %s", key, field)
			}
		}
	}
}

// While the operator rotates the key, receivers of either accept.
func TestRotateOperatorsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before := b.verifiers(t, "default")
	oldKey, newKey := hookkeys.New(), hookkeys.New()
	pairs := func(words string) []hookkeys.Pair {
		keys, err := hookkeys.Parse(words)
		if err != nil {
			t.Fatal(err)
		}
		b.config.Keys = keys
		list, err := keys.Pairs("default", record.Signing{Generation: 1}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	was, is := pairs(oldKey)[0], pairs(newKey)[0]
	both := pairs(newKey + " " + oldKey)
	if len(both) != 2 || both[0].Secret.Reveal() != is.Secret.Reveal() || both[1].Secret.Reveal() != was.Secret.Reveal() {
		t.Errorf("got %d pairs, want the new one's and the old one's", len(both))
	}
	b.run(t)
	m := b.delivered(t, "default")
	for name, test := range map[string]struct {
		v    webhook.Verifier
		want error
	}{
		"old secret": {was.Secret, nil}, "new secret": {is.Secret, nil}, "old key": {was.Key.Public(), nil}, "new key": {is.Key.Public(), nil},
		"another": {before[0], webhook.ErrSignature},
	} {
		if err := webhook.Verify(m.header, m.body, []webhook.Verifier{test.v}, time.Minute, time.Now()); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}
