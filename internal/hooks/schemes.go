package hooks

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it; as a MAC it holds
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// verifyStandard is for Standard Webhooks: v1 by whsec_…, v1a by whpk_…. Svix's customers send its
// headers under older names.
func verifyStandard(r Request, secrets []string, now time.Time) (Delivery, error) {
	var verifiers []webhook.Verifier
	for _, secret := range secrets {
		some, err := webhook.ParseVerifiers(secret)
		if err != nil {
			return Delivery{}, ErrSignature
		}
		verifiers = append(verifiers, some...)
	}
	h := r.Header
	if len(h.Values(webhook.HeaderID)) == 0 && len(h.Values("Svix-Id")) > 0 {
		h = http.Header{
			webhook.HeaderID: h.Values("Svix-Id"), webhook.HeaderTimestamp: h.Values("Svix-Timestamp"), webhook.HeaderSignature: h.Values("Svix-Signature"),
		}
	}
	err := webhook.Verify(h, r.Body, verifiers, tolerance, now)
	switch {
	case errors.Is(err, webhook.ErrTooOld), errors.Is(err, webhook.ErrTooNew):
		return Delivery{}, ErrTime
	case err != nil:
		return Delivery{}, ErrSignature
	}
	id := h.Get(webhook.HeaderID)
	return Delivery{ID: id, Keys: keys(id, nil)}, nil
}

// verifyStripe reads t=…,v1=…[,v1=…]; v0 is a test's. The key is the secret's whole text. Document:
// docs.stripe.com/webhooks/signature.
func verifyStripe(r Request, secrets []string, now time.Time) (Delivery, error) {
	given, err := header(r.Header, "Stripe-Signature")
	if err != nil {
		return Delivery{}, err
	}
	var timestamp string
	var macs [][]byte
	for word := range strings.SplitSeq(given, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case name == "t" && timestamp != "":
			return Delivery{}, ErrSignature
		case name == "t":
			timestamp = value
		case name == "v1":
			if mac, ok := decode("hex", value); ok && len(macs) < maxSignatures {
				macs = append(macs, mac)
			}
		}
	}
	content := fill("{timestamp}.{body}", "", timestamp, r.Body)
	if timestamp == "" || !anyMAC(macs, content, secrets) {
		return Delivery{}, ErrSignature
	}
	if err := fresh(timestamp, now); err != nil {
		return Delivery{}, err
	}
	var id string
	if body, err := bodyOf(job.SenderStripe, r); err == nil {
		id = textAt(body, "/id")
	}
	return Delivery{ID: id, Keys: keys(id, content)}, nil
}

// verifyDiscord checks Ed25519 signatures; the secrets are public keys, in hex. Document:
// docs.discord.com "Interactions: Receiving and Responding", "Webhook Events".
func verifyDiscord(r Request, secrets []string, now time.Time) (Delivery, error) {
	given, err := header(r.Header, "X-Signature-Ed25519")
	if err != nil {
		return Delivery{}, err
	}
	timestamp, err := header(r.Header, "X-Signature-Timestamp")
	if err != nil {
		return Delivery{}, err
	}
	signature, ok := decode("hex", given)
	content := append([]byte(timestamp), r.Body...)
	verified := false
	for _, secret := range secrets {
		key, err := hex.DecodeString(secret)
		verified = ok && err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, content, signature) || verified
	}
	if !verified {
		return Delivery{}, ErrSignature
	}
	if err := fresh(timestamp, now); err != nil {
		return Delivery{}, err
	}
	d := Delivery{Keys: keys("", content)}
	body, err := bodyOf(job.SenderDiscord, r)
	if err != nil {
		return d, nil //nolint:nilerr // it has no id
	}
	if id := textAt(body, "/id"); id != "" {
		d.ID, d.Keys = id, keys(id, content)
	}
	kind, _ := jsonvalue.Find(body, "/type")
	_, isEvent := jsonvalue.Find(body, "/event")
	number, _ := jsonvalue.Text(kind)
	switch {
	case number == "0": // of an application that listens to events
		d.Handshake = &Answer{Status: http.StatusNoContent}
	case number == "1" && !isEvent: // of one that takes interactions
		d.Handshake = &Answer{http.StatusOK, "application/json", []byte(`{"type":1}`)}
	}
	return d, nil
}

// verifyTwilio checks a code by HMAC-SHA1 over the URL and the form's fields, sorted; of a body that is
// no form, the URL has the body's SHA-256. Document: twilio.com/docs/usage/security.
func verifyTwilio(h job.HookSettings, r Request, secrets []string) (Delivery, error) {
	given, err := header(r.Header, "X-Twilio-Signature")
	if err != nil {
		return Delivery{}, err
	}
	mac, ok := decode("base64", given)
	called, _, _ := strings.Cut(cmp.Or(h.URL, r.URL), "?")
	if r.RawQuery != "" {
		called += "?" + r.RawQuery
	}
	content := []byte(called)
	query, _ := url.ParseQuery(r.RawQuery) // what is none has no bodySHA256
	if sum := query.Get("bodySHA256"); sum != "" {
		want := sha256.Sum256(r.Body)
		if subtle.ConstantTimeCompare([]byte(sum), []byte(hex.EncodeToString(want[:]))) != 1 {
			return Delivery{}, ErrSignature
		}
	} else {
		form, err := url.ParseQuery(string(r.Body))
		if err != nil {
			return Delivery{}, ErrSignature
		}
		for _, name := range slices.Sorted(maps.Keys(form)) {
			values := slices.Clone(form[name])
			slices.Sort(values)
			for _, v := range slices.Compact(values) {
				content = append(append(content, name...), v...)
			}
		}
	}
	verified := false
	for _, secret := range secrets {
		code := hmac.New(sha1.New, []byte(secret))
		code.Write(content)
		verified = ok && hmac.Equal(mac, code.Sum(nil)) || verified
	}
	if !verified {
		return Delivery{}, ErrSignature
	}
	return unsigned(r.Header, "I-Twilio-Idempotency-Token", content)
}

// verifyBearer knows the sender by its token alone: nothing is signed, so that only ids tell deliveries
// apart. CloudEvents name one by source and id, in headers or in the body.
func verifyBearer(sender string, r Request, secrets []string) (Delivery, error) {
	given, err := header(r.Header, "Authorization")
	if err != nil {
		return Delivery{}, err
	}
	scheme, token, _ := strings.Cut(given, " ")
	if !strings.EqualFold(scheme, "Bearer") || !anyEqual(token, secrets) {
		return Delivery{}, ErrSignature
	}
	if sender == job.SenderBearer {
		return unsigned(r.Header, "Idempotency-Key", nil)
	}
	id, source := r.Header.Get("Ce-Id"), r.Header.Get("Ce-Source")
	if id == "" {
		body, err := Body(r)
		if err != nil {
			return Delivery{}, nil //nolint:nilerr // it names nothing
		}
		id, source = textAt(body, "/id"), textAt(body, "/source")
	}
	if id == "" {
		return Delivery{}, nil
	}
	return Delivery{ID: id, Keys: keys(source+"\n"+id, nil)}, nil
}

// anyEqual compares with all of the secrets, in a time that tells nothing of them.
func anyEqual(given string, secrets []string) bool {
	found := false
	got := sha256.Sum256([]byte(given))
	for _, secret := range secrets {
		want := sha256.Sum256([]byte(secret))
		found = subtle.ConstantTimeCompare(got[:], want[:]) == 1 || found
	}
	return found
}
