package hooks_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/job"
)

// TestReplayUnderAnotherID: where the id is not signed, the digest names the delivery still.
func TestReplayUnderAnotherID(t *testing.T) {
	t.Parallel()
	ids := map[string]string{
		"github": "X-GitHub-Delivery", "bitbucket": "X-Request-UUID", "shopify": "X-Shopify-Webhook-Id", "twilio": "I-Twilio-Idempotency-Token", "gitlab": "Idempotency-Key",
		"standard-webhooks": "Webhook-Id", "svix": "Svix-Id", "own scheme": "X-Id",
	}
	for _, v := range vectors() {
		name := ids[v.name]
		if name == "" {
			continue
		}
		r := v.request
		r.Header = r.Header.Clone()
		r.Header.Set(name, "another")
		d, err := hooks.Verify(v.settings, r, []string{v.secret}, v.now())
		signed := len(v.keys) == 1
		if signed != errors.Is(err, hooks.ErrSignature) || !signed && (len(d.Keys) != 2 || d.Keys[0] == v.keys[0] || d.Keys[1] != v.keys[1]) {
			t.Errorf("%s: got %+v, %v; keys were %q", v.name, d, err, v.keys)
		}
	}
}

// TestReplayAsAnotherType: a header that nobody signs doesn't make another delivery of a request. Stripe's
// and Discord's are JSON whatever it says, for the job's parameters too.
func TestReplayAsAnotherType(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		for _, contentType := range []string{"", "application/json", form} {
			r := v.request
			r.Header = r.Header.Clone()
			r.Header.Set("Content-Type", contentType)
			d, err := hooks.Verify(v.settings, r, []string{v.secret}, v.now())
			if err != nil {
				t.Fatalf("%s as %q: %v", v.name, contentType, err)
			}
			if v.bearer && v.settings.Sender == job.SenderCloudEvents {
				continue // a bearer's token could as well be sent with another body
			}
			if !slices.ContainsFunc(d.Keys, func(key string) bool { return slices.Contains(v.keys, key) }) {
				t.Errorf("%s as %q: got keys %q, want one of %q", v.name, contentType, d.Keys, v.keys)
			}
			if v.settings.Sender != job.SenderStripe && v.settings.Sender != job.SenderDiscord {
				continue
			}
			values, err := hooks.Values(v.settings, r, d, "h", v.now(), true)
			if body, ok := values["body"].(map[string]any); err != nil || !ok || "id:"+body["id"].(string) != v.keys[0] || !slices.Equal(d.Keys, v.keys) {
				t.Errorf("%s as %q: got keys %q, body %v, %v", v.name, contentType, d.Keys, values["body"], err)
			}
		}
	}
}

// TestSignedTextIsPartedOneWay: who took down a request can't move what stands between the id, the time
// and the body, so that the same signature is for another delivery.
func TestSignedTextIsPartedOneWay(t *testing.T) {
	t.Parallel()
	const secret = "my own secret"
	scheme := job.HookScheme{Signature: "X-Sig", Encoding: "hex", Content: "{timestamp}.{id}.{body}", Timestamp: "X-Time", ID: "X-Id"}
	settings := job.HookSettings{Template: "t", Sender: job.SenderHMAC, Scheme: &scheme}
	signature := hex.EncodeToString(mac(secret, "1614265330.id1.first.second"))
	verify := func(timestamp, id, body string) error {
		r := hooks.Request{Body: []byte(body), Header: head("X-Id", id, "X-Time", timestamp, "X-Sig", signature)}
		_, err := hooks.Verify(settings, r, []string{secret}, time.Unix(1614265330, 0))
		return err
	}
	if err := verify("1614265330", "id1", "first.second"); err != nil {
		t.Error(err)
	}
	for _, c := range [][3]string{{"1614265330", "id1.first", "second"}, {"1614265330.id1", "first", "second"}} {
		if err := verify(c[0], c[1], c[2]); !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%q: got %v", c, err)
		}
	}
	for content, good := range map[string]bool{
		"{timestamp}.{id}.{body}": true, "v0:{timestamp}:{id}x:{body}": true, "{id}/{timestamp}-{body}": true,
		"{timestamp}{id}.{body}": false, "{timestamp}.{id}{body}": false, "{timestamp}.{id}-{body}": false, "{id}.{timestamp}{body}": false, "{timestamp}.{body}_x{id}": false,
	} {
		scheme.Content = content
		if err := settings.Check(); (err == nil) != good {
			t.Errorf("%s: got %v", content, err)
		}
	}
}

// TestHandshakes: who only asks if somebody is there is answered, once it is known who asks.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1614265330, 0)
	slack := func(body string) hooks.Request {
		return hooks.Request{Body: []byte(body), Header: head("X-Slack-Request-Timestamp", "1614265330",
			"X-Slack-Signature", "v0="+hex.EncodeToString(mac("a slack secret", "v0:1614265330:"+body)))}
	}
	discord := func(body string) hooks.Request {
		return hooks.Request{Body: []byte(body), Header: head("X-Signature-Timestamp", "1614265330",
			"X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(discordKey, []byte("1614265330"+body))))}
	}
	public := hex.EncodeToString(discordKey.Public().(ed25519.PublicKey))
	github := hooks.Request{Body: []byte(`{"zen":"x"}`), Header: head("X-GitHub-Event", "ping", "X-GitHub-Delivery", "1",
		"X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac("a github secret", `{"zen":"x"}`)))}
	for _, c := range []struct {
		sender, secret string
		request        hooks.Request
		want           string
		status         int
	}{
		{job.SenderSlack, "a slack secret", slack(`{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV","type":"url_verification"}`), "3eZbrw1aBm2rZgRNFdxV", 200},
		{job.SenderSlack, "a slack secret", slack(`{"event_id":"Ev1","type":"event_callback"}`), "", 0},
		{job.SenderDiscord, public, discord(`{"type":1,"id":"1","application_id":"2"}`), `{"type":1}`, 200},
		{job.SenderDiscord, public, discord(`{"version":1,"application_id":"2","type":0}`), "", 204},
		{job.SenderDiscord, public, discord(`{"version":1,"application_id":"2","type":1,"event":{"type":"X"}}`), "", 0},
		{job.SenderGitHub, "a github secret", github, "pong\n", 200},
	} {
		d, err := hooks.Verify(job.HookSettings{Sender: c.sender}, c.request, []string{c.secret}, now)
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.request.Body, err)
		case d.Handshake == nil && c.status != 0, d.Handshake != nil && (d.Handshake.Status != c.status || string(d.Handshake.Body) != c.want):
			t.Errorf("%s: got %+v, want %d %s", c.request.Body, d.Handshake, c.status, c.want)
		}
		c.request.Body = append(c.request.Body, ' ')
		if _, err := hooks.Verify(job.HookSettings{Sender: c.sender}, c.request, []string{c.secret}, now); !errors.Is(err, hooks.ErrSignature) {
			t.Errorf("%s, changed: got %v", c.request.Body, err)
		}
	}
}

// TestTwilioJSON: of a body that is no form, the URL has the digest.
func TestTwilioJSON(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(`{"a":1}`))
	r := hooks.Request{URL: "https://a.example/v1/hooks/x", RawQuery: "bodySHA256=" + hex.EncodeToString(sum[:]), Body: []byte(`{"a":1}`), Header: head("X-Twilio-Signature", "")}
	r.Header.Set("X-Twilio-Signature", sha1MAC("12345678", r.URL+"?"+r.RawQuery))
	if _, err := hooks.Verify(job.HookSettings{Sender: job.SenderTwilio}, r, []string{"12345678"}, time.Now()); err != nil {
		t.Error(err)
	}
	r.Body = []byte(`{"a":2}`)
	if _, err := hooks.Verify(job.HookSettings{Sender: job.SenderTwilio}, r, []string{"12345678"}, time.Now()); !errors.Is(err, hooks.ErrSignature) {
		t.Errorf("another body: got %v", err)
	}
}

// TestSecretsAreNotValues: what a hook's pointers can find has no secret of the sender's.
func TestSecretsAreNotValues(t *testing.T) {
	t.Parallel()
	r := hooks.Request{
		RawQuery: "a=1&a=2&b", Body: []byte(`payload=%7B%22ref%22%3A%22main%22%7D`),
		Header: head("Authorization", "Bearer s3cret", "X-Gitlab-Token", "s3cret", "Cookie", "s3cret", "X-Event", "push",
			"X-My-Sig", "s3cret"),
	}
	r.Header.Set("Content-Type", form)
	for _, v := range vectors() {
		r.Header.Set(v.signature, "s3cret")
	}
	r.Header.Del("X-Sig") // another hook's own
	r.Header.Set("X-Hub-Signature", "s3cret")
	settings := job.HookSettings{Sender: job.SenderHMAC, Scheme: &job.HookScheme{Signature: "x-my-sig"}}
	v, err := hooks.Values(settings, r, hooks.Delivery{ID: "d"}, "h", time.Unix(0, 0), true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := job.Marshal(v)
	const want = `{"body":{"ref":"main"},"delivery":"d","headers":{"content-type":"application/x-www-form-urlencoded","x-event":"push"},"hook":"h","query":{"a":"1,2","b":""},"time":"1970-01-01T00:00:00Z"}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}

// FuzzVerify: nothing that a stranger sends is verified, or panics.
func FuzzVerify(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.settings.Sender, v.signature, v.request.Header.Get(v.signature), string(v.request.Body), v.request.RawQuery)
	}
	f.Fuzz(func(t *testing.T, sender, name, value, body, query string) {
		settings := job.HookSettings{Sender: sender, Scheme: &job.HookScheme{Signature: "X-Sig", Encoding: "hex", Content: "{body}"}}
		r := hooks.Request{Header: head(name, value, "Webhook-Id", "1", "Webhook-Timestamp", "1614265330", "X-Slack-Request-Timestamp", "1614265330", "X-Signature-Timestamp", "1614265330"), Body: []byte(body), RawQuery: query}
		secret := "whsec_c2VjcmV0IG9mIG5vYm9keSBhdCBhbGw="
		if d, err := hooks.Verify(settings, r, []string{secret}, time.Unix(1614265330, 0)); err == nil && !strings.Contains(value, secret) {
			t.Errorf("verified: %+v", d)
		}
		_, _ = hooks.Values(settings, r, hooks.Delivery{}, "h", time.Now(), true)
	})
}
