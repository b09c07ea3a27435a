package hooks_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/job"
)

// vector is a request that its sender signed.
type vector struct {
	name     string
	settings job.HookSettings
	secret   string
	request  hooks.Request
	at       int64 // when, seconds since 1970; 0 where no time is signed
	keys     []string
	// signature is the header that has it; bearer says that nothing but that is looked at.
	signature string
	bearer    bool
}

func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "digest:" + hex.EncodeToString(sum[:])
}

func mac(key, text string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

var discordKey = ed25519.NewKeyFromSeed([]byte("TESTSIGNINGKEYDONOTUSETHISFORANY"))

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

const form = "application/x-www-form-urlencoded"

// vectors are the senders' own where they publish one: Standard Webhooks, GitHub, Bitbucket, Slack,
// Twilio. The others are calculated here, by what their documents say.
func vectors() []vector {
	const shopifyBody, discordBody = `{"id":1,"é":"x"}`, `{"application_id":"1","id":"845027738276462632","type":2}`
	return []vector{
		{
			name: "standard-webhooks", settings: job.HookSettings{Sender: job.SenderStandard}, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			request: hooks.Request{Body: []byte(`{"test": 2432232314}`), Header: head(
				"Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330",
				"Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
			at: 1614265330, keys: []string{"id:msg_p5jXN8AQM9LWM0D4loKWxJek"}, signature: "Webhook-Signature",
		},
		{
			name: "svix", settings: job.HookSettings{Sender: job.SenderStandard}, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			request: hooks.Request{Body: []byte(`{"test": 2432232314}`), Header: head(
				"Svix-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Svix-Timestamp", "1614265330",
				"Svix-Signature", "v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
			at: 1614265330, keys: []string{"id:msg_p5jXN8AQM9LWM0D4loKWxJek"}, signature: "Svix-Signature",
		},
		{
			name: "standard-webhooks v1a", settings: job.HookSettings{Sender: job.SenderStandard}, secret: "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
			request: hooks.Request{Body: []byte(`{"test": 2432232314}`), Header: head(
				"Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330",
				"Webhook-Signature", "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==")},
			at: 1614265330, keys: []string{"id:msg_p5jXN8AQM9LWM0D4loKWxJek"}, signature: "Webhook-Signature",
		},
		{
			name: "github", settings: job.HookSettings{Sender: job.SenderGitHub}, secret: "It's a Secret to Everybody",
			request: hooks.Request{Body: []byte("Hello, World!"), Header: head(
				"X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event", "push",
				"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")},
			keys: []string{"id:72d3162e-cc78-11e3-81ab-4c9367dc0958", digest("Hello, World!")}, signature: "X-Hub-Signature-256",
		},
		{
			name: "bitbucket", settings: job.HookSettings{Sender: job.SenderBitbucket}, secret: "It's a Secret to Everybody",
			request: hooks.Request{Body: []byte("Hello World!"), Header: head(
				"X-Request-UUID", "f1", "X-Hub-Signature", "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9")},
			keys: []string{"id:f1", digest("Hello World!")}, signature: "X-Hub-Signature",
		},
		{
			name: "shopify", settings: job.HookSettings{Sender: job.SenderShopify}, secret: "shpss_secret",
			request: hooks.Request{Body: []byte(shopifyBody), Header: head(
				"X-Shopify-Webhook-Id", "b1", "X-Shopify-Hmac-SHA256", base64.StdEncoding.EncodeToString(mac("shpss_secret", shopifyBody)))},
			keys: []string{"id:b1", digest(shopifyBody)}, signature: "X-Shopify-Hmac-SHA256",
		},
		{
			name: "slack", settings: job.HookSettings{Sender: job.SenderSlack}, secret: "8f742231b10e8888abcd99yyyzzz85a5",
			request: hooks.Request{Body: []byte(slackBody), Header: head(
				"Content-Type", form, "X-Slack-Request-Timestamp", "1531420618",
				"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")},
			at: 1531420618, keys: []string{"id:398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c", digest("v0:1531420618:" + slackBody)}, signature: "X-Slack-Signature",
		},
		{
			name: "stripe", settings: job.HookSettings{Sender: job.SenderStripe}, secret: "whsec_test_secret",
			request: hooks.Request{Body: []byte(`{"id":"evt_test_webhook","object":"event"}`), Header: head(
				"Stripe-Signature", "t=1614265330,v1="+strings.Repeat("0", 64)+",v1=3c5817089d739023dd6190f70a3757e04f7a2fd8b5dab12c2e000f51970dccff,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39")},
			at: 1614265330, keys: []string{"id:evt_test_webhook", digest(`1614265330.{"id":"evt_test_webhook","object":"event"}`)}, signature: "Stripe-Signature",
		},
		{
			name: "twilio", settings: job.HookSettings{Sender: job.SenderTwilio, URL: "https://mycompany.com/myapp.php"}, secret: "12345",
			request: hooks.Request{
				URL: "https://not.this.one/", RawQuery: "foo=1&bar=2", Body: []byte("Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE"),
				Header: head("Content-Type", form, "I-Twilio-Idempotency-Token", "t1", "X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
			},
			keys:      []string{"id:t1", digest("https://mycompany.com/myapp.php?foo=1&bar=2CallSidCA1234567890ABCDECaller+14158675309Digits1234From+14158675309To+18005551212")},
			signature: "X-Twilio-Signature",
		},
		{
			name: "discord", settings: job.HookSettings{Sender: job.SenderDiscord}, secret: hex.EncodeToString(discordKey.Public().(ed25519.PublicKey)),
			request: hooks.Request{Body: []byte(discordBody), Header: head(
				"X-Signature-Timestamp", "1614265330", "X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(discordKey, []byte("1614265330"+discordBody))))},
			at: 1614265330, keys: []string{"id:845027738276462632", digest("1614265330" + discordBody)}, signature: "X-Signature-Ed25519",
		},
		{
			name: "own scheme", settings: job.HookSettings{Sender: job.SenderHMAC, Scheme: &job.HookScheme{
				Signature: "X-Sig", Encoding: "base64", Content: "{timestamp}:{id}:{body}!", Timestamp: "X-Time", ID: "X-Id",
			}}, secret: "my own secret",
			request: hooks.Request{Body: []byte("{id}{body}"), Header: head(
				"X-Id", "m_1", "X-Time", "1614265330", "X-Sig", base64.StdEncoding.EncodeToString(mac("my own secret", "1614265330:m_1:{id}{body}!")))},
			at: 1614265330, keys: []string{"id:m_1"}, signature: "X-Sig",
		},
		{
			name: "gitlab", settings: job.HookSettings{Sender: job.SenderGitLab}, secret: "a token of mine",
			request: hooks.Request{Body: []byte(`{}`), Header: head("X-Gitlab-Token", "a token of mine", "Idempotency-Key", "k1")},
			keys:    []string{"id:k1", digest(`{}`)}, signature: "X-Gitlab-Token", bearer: true,
		},
		{
			name: "cloudevents", settings: job.HookSettings{Sender: job.SenderCloudEvents}, secret: "a token of mine",
			request: hooks.Request{Body: []byte(`{"specversion":"1.0","source":"/s","id":"7","type":"x"}`), Header: head("Authorization", "Bearer a token of mine")},
			keys:    []string{"id:/s\n7"}, signature: "Authorization", bearer: true,
		},
		{
			name: "bearer", settings: job.HookSettings{Sender: job.SenderBearer}, secret: "a token of mine",
			request: hooks.Request{Body: []byte("x"), Header: head("Authorization", "bearer a token of mine", "Idempotency-Key", "k1")},
			keys:    []string{"id:k1"}, signature: "Authorization", bearer: true,
		},
	}
}

func (v vector) now() time.Time {
	if v.at == 0 {
		return time.Now()
	}
	return time.Unix(v.at, 0)
}

// TestVectors: what each sender signs is verified, and what differs from it in anything is not.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		verify := func(change func(*hooks.Request), now time.Time, secrets ...string) (hooks.Delivery, error) {
			r := v.request
			r.Header, r.Body = v.request.Header.Clone(), slices.Clone(v.request.Body)
			change(&r)
			return hooks.Verify(v.settings, r, secrets, now)
		}
		none, other := func(*hooks.Request) {}, "another secret of mine"
		switch v.settings.Sender {
		case job.SenderStandard:
			other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		case job.SenderDiscord:
			other = strings.Repeat("00", 32)
		}
		for _, secrets := range [][]string{{v.secret}, {other, v.secret}, {v.secret, other}} {
			d, err := verify(none, v.now(), secrets...)
			if err != nil || !slices.Equal(d.Keys, v.keys) || d.Handshake != nil {
				t.Errorf("%s: got %+v, %v, want keys %q", v.name, d, err, v.keys)
			}
		}
		refused := func(what string, want error, change func(*hooks.Request), now time.Time, secrets ...string) {
			t.Helper()
			if d, err := verify(change, now, secrets...); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %+v, %v, want %v", v.name, what, d, err, want)
			}
		}
		refused("another secret", hooks.ErrSignature, none, v.now(), other)
		refused("no secret", hooks.ErrSignature, none, v.now())
		refused("no signature", hooks.ErrSignature, func(r *hooks.Request) { r.Header.Del(v.signature) }, v.now(), v.secret)
		refused("two signatures", hooks.ErrSignature, func(r *hooks.Request) { r.Header.Add(v.signature, r.Header.Get(v.signature)) }, v.now(), v.secret)
		refused("a long signature", hooks.ErrSignature, func(r *hooks.Request) { r.Header.Set(v.signature, strings.Repeat("a", 5000)) }, v.now(), v.secret)
		refused("a changed signature", hooks.ErrSignature, func(r *hooks.Request) {
			r.Header.Set(v.signature, strings.NewReplacer("a", "b", "b", "a", "8", "9", "9", "8", "R", "S").Replace(r.Header.Get(v.signature)))
		}, v.now(), v.secret)
		if !v.bearer {
			for i := range v.request.Body {
				refused("a changed byte", hooks.ErrSignature, func(r *hooks.Request) { r.Body[i] ^= 1 }, v.now(), v.secret)
			}
			refused("one byte more", hooks.ErrSignature, func(r *hooks.Request) { r.Body = append(r.Body, 'x') }, v.now(), v.secret)
		}
		if v.at != 0 {
			refused("too old", hooks.ErrTime, none, v.now().Add(5*time.Minute+time.Second), v.secret)
			refused("of the future", hooks.ErrTime, none, v.now().Add(-5*time.Minute-time.Second), v.secret)
			for name := range v.request.Header {
				if strings.Contains(name, "Time") {
					refused("another time", hooks.ErrSignature, func(r *hooks.Request) { r.Header.Set(name, "1614265331") }, v.now(), v.secret)
				}
			}
		}
	}
}

func sha1MAC(key, text string) string {
	h := hmac.New(sha1.New, []byte(key))
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
