package hooks

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
)

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
