package hooks

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
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

// What is wrong with a request that nothing is started for.
var (
	// ErrSignature means that the request has no signature by any of the secrets, or two.
	ErrSignature = errors.New("the request is not signed as this hook's sender signs")
	// ErrTime means that it was signed too long ago, or with a clock that is wrong.
	ErrTime = errors.New("the request was signed too long ago, or by a clock that is ahead")

	errSignature, errTime = ErrSignature, ErrTime
)

// Request is what came.
type Request struct {
	Header   http.Header
	RawQuery string
	Body     []byte // as it came
	// URL is the hook's, without a query, which Twilio signs.
	URL string
	// Permit is asked before anything is fetched to verify the request, and its error is that of the
	// verification. Defaults to a yes.
	Permit func() error
}

// Delivery is a request whose sender is known.
type Delivery struct {
	// ID is what the sender calls it, or "".
	ID string
	// Keys name the delivery: a request with one of them is the same once more. They are the id where
	// that is a part of what is signed by itself; else the id and the digest of what is signed, as whoever
	// took down a request could send it again under another id, or with headers by which none is found in
	// the body. There is none where nothing names it.
	Keys []string
	// Handshake is what to answer to a request that only asks if somebody is there; else nil.
	Handshake *Answer
	// Visit is a URL that the handshake wants to be visited before it is answered, Note what is listed of it.
	Visit, Note string
	// Body is what is signed of the body, where that isn't all of it; else nil.
	Body map[string]any
}

// Answer is what a sender is told.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Verify returns what a request is, if one of the secrets has signed it as the hook's sender signs. It
// fails with ErrSignature or ErrTime. Amazon's senders have no secret: [SNS.Verify] is theirs.
func Verify(h job.HookSettings, r Request, secrets []string, now time.Time) (Delivery, error) {
	if len(secrets) == 0 {
		return Delivery{}, ErrSignature
	}
	if scheme, ok := schemes[h.Sender]; ok {
		return verifyScheme(h.Sender, scheme, r, secrets, now)
	}
	switch h.Sender {
	case job.SenderHMAC:
		return verifyScheme(h.Sender, *h.Scheme, r, secrets, now)
	case job.SenderStandard:
		return verifyStandard(r, secrets, now)
	case job.SenderStripe:
		return verifyStripe(r, secrets, now)
	case job.SenderDiscord:
		return verifyDiscord(r, secrets, now)
	case job.SenderTwilio:
		return verifyTwilio(h, r, secrets)
	case job.SenderGitLab:
		token, err := header(r.Header, "X-Gitlab-Token")
		if err != nil || !anyEqual(token, secrets) {
			return Delivery{}, ErrSignature
		}
		return unsigned(r.Header, "Idempotency-Key", r.Body)
	case job.SenderCloudEvents, job.SenderBearer:
		return verifyBearer(h.Sender, r, secrets)
	}
	return Delivery{}, ErrSignature
}

func verifyScheme(sender string, s job.HookScheme, r Request, secrets []string, now time.Time) (Delivery, error) {
	in, err := check(s, r, secrets, now)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{ID: in.id, Keys: keys(in.id, in.content)}
	switch {
	case strings.Contains(s.Content, "{id}"):
		d.Keys = keys(in.id, nil)
		if in.id == "" { // signed as empty
			d.Keys = keys("", in.content)
		}
	case sender == job.SenderSlack:
		slack(&d, r, in.content)
	case sender == job.SenderGitHub && r.Header.Get("X-Github-Event") == "ping":
		d.Handshake = &Answer{http.StatusOK, "text/plain", []byte("pong\n")}
	}
	return d, nil
}

// keys are those of an id and of what is signed, where there is any.
func keys(id string, content []byte) (list []string) {
	if id != "" {
		list = append(list, "id:"+id)
	}
	if content != nil {
		sum := sha256.Sum256(content)
		list = append(list, "digest:"+hex.EncodeToString(sum[:]))
	}
	return list
}

// unsigned is a delivery whose id is not signed.
func unsigned(h http.Header, name string, content []byte) (Delivery, error) {
	id, err := optional(h, name)
	return Delivery{ID: id, Keys: keys(id, content)}, err
}

// slack reads what is signed, too: the body. Its retries have a new time, and the same id.
func slack(d *Delivery, r Request, content []byte) {
	body, err := Body(r)
	if err != nil {
		return
	}
	if kind, _ := jsonvalue.Find(body, "/type"); kind == "url_verification" {
		challenge, _ := jsonvalue.Find(body, "/challenge")
		text, _ := challenge.(string)
		d.Handshake = &Answer{http.StatusOK, "text/plain", []byte(text)}
	}
	for _, pointer := range []string{"/event_id", "/trigger_id"} {
		if id := textAt(body, pointer); id != "" {
			d.ID, d.Keys = id, keys(id, content)
			return
		}
	}
}

func textAt(v any, pointer string) string {
	found, _ := jsonvalue.Find(v, pointer)
	text, _ := found.(string)
	return job.Clip(text, maxHeader)
}

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

// CheckSecret returns what is wrong with the secret of a hook of that sender as job.Invalid, or nil.
func CheckSecret(sender, secret string) error {
	if err := job.CheckHookSecret(secret); err != nil {
		return err
	}
	wrong := job.FieldError{Field: "secret", Message: "is not of the form that the sender's secrets have"}
	switch sender {
	case job.SenderStandard:
		if _, err := webhook.ParseVerifiers(secret); err == nil && !strings.Contains(secret, " ") {
			return nil
		}
		wrong.Allowed = "whsec_… or whpk_…"
	case job.SenderDiscord:
		if key, err := hex.DecodeString(secret); err == nil && len(key) == ed25519.PublicKeySize {
			return nil
		}
		wrong.Allowed = "the application's public key: 64 hex digits"
	default:
		return nil
	}
	return job.Invalid{wrong}
}

// proofs are the headers that prove who sent a request, whatever the hook's sender is: secrets, and
// signatures, with which a job could send the request again. They are not for jobs.
var proofs = []string{
	"authorization", "proxy-authorization", "cookie", "x-gitlab-token",
	"webhook-signature", "svix-signature", "stripe-signature", "x-hub-signature", "x-hub-signature-256", "x-slack-signature",
	"x-shopify-hmac-sha256", "x-twilio-signature", "x-signature-ed25519",
}

// Values is what a hook's pointers point into.
func Values(s job.HookSettings, r Request, d Delivery, hook string, now time.Time, withBody bool) (map[string]any, error) {
	v := map[string]any{"delivery": d.ID, "hook": hook, "time": now.UTC().Format(time.RFC3339)}
	headers := map[string]any{}
	for name, values := range r.Header {
		name = strings.ToLower(name)
		own := s.Scheme != nil && strings.EqualFold(name, s.Scheme.Signature)
		if !own && !slices.Contains(proofs, name) {
			headers[name] = strings.Join(values, ", ")
		}
	}
	query := map[string]any{}
	given, _ := url.ParseQuery(r.RawQuery) // as far as it is one
	for name, values := range given {
		query[name] = strings.Join(values, ",")
	}
	v["headers"], v["query"] = headers, query
	if withBody && d.Body != nil {
		v["body"] = d.Body
	} else if withBody {
		body, err := bodyOf(s.Sender, r)
		if err != nil {
			return nil, err
		}
		v["body"] = body
	}
	return v, nil
}

// bodyOf is the body of a sender's request. Stripe and Discord send JSON alone, and don't sign the header
// that says so.
func bodyOf(sender string, r Request) (any, error) {
	if sender == job.SenderStripe || sender == job.SenderDiscord {
		return jsonvalue.Decode(bytes.TrimSpace(r.Body))
	}
	return Body(r)
}

// Body decodes JSON, or the fields of a form; one that has nothing but "payload" is what that has, as
// GitHub and Slack send JSON in forms.
func Body(r Request) (any, error) {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(mediaType), "application/x-www-form-urlencoded") {
		return jsonvalue.Decode(bytes.TrimSpace(r.Body))
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return nil, errors.New("is no form")
	}
	if payload := form.Get("payload"); payload != "" && len(form) == 1 {
		return jsonvalue.Decode([]byte(payload))
	}
	fields := make(map[string]any, len(form))
	for name, values := range form {
		fields[name] = strings.Join(values, ",")
	}
	return fields, nil
}

// NewSecret returns a random secret of the form that the sender's have, or "" where the sender makes it.
func NewSecret(sender string) string {
	switch sender {
	case job.SenderDiscord, job.SenderStripe, job.SenderSlack, job.SenderShopify, job.SenderTwilio:
		return ""
	case job.SenderStandard:
		return webhook.NewSecret().Reveal()
	}
	return rand.Text() + rand.Text()
}
