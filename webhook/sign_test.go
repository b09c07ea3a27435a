package webhook_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The published vector of Standard Webhooks.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var vectorTime = time.Unix(1614265330, 0)

func secret(tb testing.TB, text string) webhook.Secret {
	tb.Helper()
	s, err := webhook.ParseSecret(text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func sign(tb testing.TB, signers ...webhook.Signer) http.Header {
	tb.Helper()
	h, err := webhook.Sign(signers, vectorID, vectorTime, []byte(vectorBody))
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// The vectors of version v1a: the private key as Svix writes it, seed and public key, and
// as the specification's library does, the seed alone.
const (
	vectorPrivateKey      = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	vectorPublicKey       = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
	vectorAsymmetric      = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
	vectorSeed            = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk="
	vectorSeedsAsymmetric = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
)

func privateKey(tb testing.TB, text string) webhook.PrivateKey {
	tb.Helper()
	k, err := webhook.ParsePrivateKey(text)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func publicKey(tb testing.TB, text string) webhook.PublicKey {
	tb.Helper()
	k, err := webhook.ParsePublicKey(text)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func TestSignVector(t *testing.T) {
	t.Parallel()
	v1, v1a, seed := secret(t, vectorSecret), privateKey(t, vectorPrivateKey), privateKey(t, vectorSeed)
	for want, signers := range map[string][]webhook.Signer{
		vectorSignature:                          {v1},
		vectorAsymmetric:                         {v1a},
		vectorSeedsAsymmetric:                    {seed},
		vectorSignature + " " + vectorAsymmetric: {v1, v1a},
	} {
		h := sign(t, signers...)
		for name, want := range map[string]string{
			"webhook-id": vectorID, "webhook-timestamp": "1614265330", "webhook-signature": want,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
	if got := v1a.Public().String(); got != vectorPublicKey {
		t.Errorf("public key: got %s, want %s", got, vectorPublicKey)
	}
}

// What the specification's own library signs and accepts.
func TestLibraryAgrees(t *testing.T) {
	t.Parallel()
	judge, err := standardwebhooks.NewWebhook(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(vectorBody)
	now := time.Now()
	h, err := webhook.Sign([]webhook.Signer{webhook.NewSecret(), secret(t, vectorSecret), privateKey(t, vectorSeed)}, "msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := judge.Verify(body, h); err != nil {
		t.Errorf("its verdict of ours: %v", err)
	}
	signature, err := judge.Sign("msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	h.Set(webhook.HeaderSignature, signature)
	if err := webhook.Verify(h, body, []webhook.Verifier{secret(t, vectorSecret)}, webhook.DefaultTolerance, now); err != nil {
		t.Errorf("our verdict of its: %v", err)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	s := []webhook.Signer{secret(t, vectorSecret)}
	for _, id := range []string{"", "a.b", "a b", "a\nb", "é", strings.Repeat("a", 257)} {
		if _, err := webhook.Sign(s, id, vectorTime, nil); err == nil {
			t.Errorf("id %q: got nil, want an error", id)
		}
	}
	if _, err := webhook.Sign(nil, "a", vectorTime, nil); err == nil {
		t.Error("no secret: got nil, want an error")
	}
	if _, err := webhook.Sign([]webhook.Signer{webhook.Secret{}}, "a", vectorTime, nil); !errors.Is(err, webhook.ErrSecret) {
		t.Errorf("zero secret: got %v, want ErrSecret", err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	good, other := secret(t, vectorSecret), webhook.NewSecret()
	with := func(name, value string) http.Header {
		h := sign(t, good)
		h.Set(name, value)
		return h
	}
	twice := sign(t, good)
	twice.Add("webhook-id", "msg_other")
	wrong := "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
	const at = 5 * time.Minute
	for name, test := range map[string]struct {
		header    http.Header
		body      string
		verifiers []webhook.Verifier
		now       time.Time
		want      error
	}{
		"published vector":          {sign(t, good), vectorBody, []webhook.Verifier{good}, vectorTime, nil},
		"receiver has both":         {sign(t, good), vectorBody, []webhook.Verifier{other, good}, vectorTime, nil},
		"sender has both":           {sign(t, other, good), vectorBody, []webhook.Verifier{good}, vectorTime, nil},
		"among others":              {with("webhook-signature", wrong+" v2,abc v1a,x "+vectorSignature), vectorBody, []webhook.Verifier{good}, vectorTime, nil},
		"oldest":                    {sign(t, good), vectorBody, []webhook.Verifier{good}, vectorTime.Add(at), nil},
		"newest":                    {sign(t, good), vectorBody, []webhook.Verifier{good}, vectorTime.Add(-at), nil},
		"too old":                   {sign(t, good), vectorBody, []webhook.Verifier{good}, vectorTime.Add(at + 1), webhook.ErrTooOld},
		"too new":                   {sign(t, good), vectorBody, []webhook.Verifier{good}, vectorTime.Add(-at - 1), webhook.ErrTooNew},
		"too old and forged":        {sign(t, good), "x", []webhook.Verifier{good}, vectorTime.Add(2 * at), webhook.ErrSignature},
		"changed byte":              {sign(t, good), strings.Replace(vectorBody, "4", "5", 1), []webhook.Verifier{good}, vectorTime, webhook.ErrSignature},
		"other secret":              {sign(t, good), vectorBody, []webhook.Verifier{other}, vectorTime, webhook.ErrSignature},
		"no secret":                 {sign(t, good), vectorBody, nil, vectorTime, webhook.ErrSignature},
		"zero secret":               {sign(t, good), vectorBody, []webhook.Verifier{webhook.Secret{}}, vectorTime, webhook.ErrSignature},
		"other id":                  {with("webhook-id", "msg_x"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrSignature},
		"other timestamp":           {with("webhook-timestamp", "1614265331"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrSignature},
		"only another version":      {with("webhook-signature", "v2"+vectorSignature[2:]), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrSignature},
		"partial signature":         {with("webhook-signature", "v1,"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrSignature},
		"no id":                     {with("webhook-id", ""), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMissingHeader},
		"no headers":                {http.Header{}, vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMissingHeader},
		"two ids":                   {twice, vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
		"id with a dot":             {with("webhook-id", "a.b"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
		"timestamp with a plus":     {with("webhook-timestamp", "+1614265330"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
		"timestamp with a fraction": {with("webhook-timestamp", "1614265330.5"), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
		"too many signatures":       {with("webhook-signature", strings.Repeat("v1,x ", 16)+vectorSignature), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
		"endless signatures":        {with("webhook-signature", strings.Repeat("v1,x ", 1000)), vectorBody, []webhook.Verifier{good}, vectorTime, webhook.ErrMalformedHeader},
	} {
		if err := webhook.Verify(test.header, []byte(test.body), test.verifiers, at, test.now); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	encode := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n))
	}
	for _, good := range []string{vectorSecret, encode(24), encode(64), webhook.NewSecret().Reveal()} {
		if got := secret(t, good).Reveal(); got != good {
			t.Errorf("reveal: got %q, want %q", got, good)
		}
	}
	for _, bad := range []string{
		"", "whsec_", encode(23), encode(65), vectorSecret[6:], "WHSEC_" + vectorSecret[6:], " " + vectorSecret,
		vectorSecret + "\n", "whsec_" + strings.Repeat("-_", 20), strings.TrimRight(encode(25), "="),
	} {
		_, err := webhook.ParseSecret(bad)
		if !errors.Is(err, webhook.ErrSecret) {
			t.Errorf("%q: got %v, want ErrSecret", bad, err)
		} else if len(bad) > 10 && strings.Contains(err.Error(), bad[6:]) {
			t.Errorf("%q is quoted by its error: %v", bad, err)
		}
	}
	if one, two := webhook.NewSecret(), webhook.NewSecret(); one.Reveal() == two.Reveal() {
		t.Error("two new secrets are the same")
	}

	s := secret(t, vectorSecret)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "list", []webhook.Secret{s})
	fmt.Fprintf(&log, "%v %+v %#v %s %q %x %d", s, s, s, s, s, s, []webhook.Secret{s})
	for _, leak := range []string{vectorSecret[6:], "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0", "49 242 144"} {
		if strings.Contains(log.String(), leak) {
			t.Errorf("log holds the secret: %s", log.String())
		}
	}
}

func FuzzVerify(f *testing.F) {
	good, err := webhook.ParseSecret(vectorSecret)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(vectorID, "1614265330", vectorSignature, []byte(vectorBody))
	f.Add("a", "-1", "v1,,, v1", []byte{})
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		err := webhook.Verify(h, body, []webhook.Verifier{good}, webhook.DefaultTolerance, vectorTime)
		signed := id == vectorID && timestamp == "1614265330" && string(body) == vectorBody
		if err == nil && !signed {
			t.Errorf("%q %q %q %q was accepted", id, timestamp, signature, body)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add(vectorSecret)
	f.Add("whsec_====")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := webhook.ParseSecret(text)
		if err == nil && s.Reveal() != text {
			t.Errorf("%q parsed and revealed is %q", text, s.Reveal())
		}
	})
}
