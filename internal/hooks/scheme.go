// Package hooks verifies the requests of others that start jobs: who sent one, when, and which delivery
// it is. It knows what some senders do, each a few lines of data, and schemes of one's own. It keeps
// nothing: whether a delivery was seen before is for its caller. Start at [Verify].
package hooks

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// tolerance is how far a signed time may be from now, either way: Standard Webhooks, Stripe and Slack
	// say 5 minutes.
	tolerance = 5 * time.Minute
	// maxHeader bounds a header that is read, maxSignatures what a stranger can have us calculate.
	maxHeader     = 4 << 10
	maxSignatures = 16
)

// schemes are those senders' that sign with HMAC-SHA256 and a secret as it is typed. Documents:
// docs.github.com "Validating webhook deliveries", support.atlassian.com "Manage webhooks",
// shopify.dev "Verify webhook deliveries", docs.slack.dev "Verifying requests from Slack".
var schemes = map[string]job.HookScheme{
	job.SenderGitHub:    {Signature: "X-Hub-Signature-256", Prefix: "sha256=", Encoding: "hex", Content: "{body}", ID: "X-GitHub-Delivery"},
	job.SenderBitbucket: {Signature: "X-Hub-Signature", Prefix: "sha256=", Encoding: "hex", Content: "{body}", ID: "X-Request-UUID"},
	job.SenderShopify:   {Signature: "X-Shopify-Hmac-SHA256", Encoding: "base64", Content: "{body}", ID: "X-Shopify-Webhook-Id"},
	job.SenderSlack:     {Signature: "X-Slack-Signature", Prefix: "v0=", Encoding: "hex", Content: "v0:{timestamp}:{body}", Timestamp: "X-Slack-Request-Timestamp"},
}

// What is signed with the body has a form without the characters that stand between them: else a text
// could be parted in two ways, and a request that was taken down be sent again under another id.
var (
	signedID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	seconds  = regexp.MustCompile(`^[0-9]{1,19}$`)
)

// signed is what a scheme finds in a request that it trusts.
type signed struct {
	id      string // of the delivery, as a header says; "" for none
	content []byte // what was signed
}

// check verifies a request by a scheme, with any of the secrets.
func check(s job.HookScheme, r Request, secrets []string, now time.Time) (signed, error) {
	var in signed
	id, err := optional(r.Header, s.ID)
	if err != nil {
		return in, err
	}
	var timestamp string
	if s.Timestamp != "" {
		if timestamp, err = header(r.Header, s.Timestamp); err != nil {
			return in, err
		}
	}
	given, err := header(r.Header, s.Signature)
	if err != nil {
		return in, err
	}
	mac, ok := decode(s.Encoding, strings.TrimPrefix(given, s.Prefix))
	if !ok || !strings.HasPrefix(given, s.Prefix) {
		return in, errSignature
	}
	if strings.Contains(s.Content, "{id}") && id != "" && !signedID.MatchString(id) || s.Timestamp != "" && !seconds.MatchString(timestamp) {
		return in, errSignature
	}
	in.id = id
	in.content = fill(s.Content, id, timestamp, r.Body)
	if !anyMAC([][]byte{mac}, in.content, secrets) {
		return in, errSignature
	}
	if s.Timestamp != "" {
		err = fresh(timestamp, now)
	}
	return in, err
}

// fill puts id, timestamp and body into a content's text, which has each of them once at most.
func fill(content, id, timestamp string, body []byte) []byte {
	before, after, _ := strings.Cut(content, "{body}")
	words := strings.NewReplacer("{id}", id, "{timestamp}", timestamp)
	return bytes.Join([][]byte{[]byte(words.Replace(before)), body, []byte(words.Replace(after))}, nil)
}

// anyMAC reports whether one of the codes is that of the content by one of the secrets. It always
// calculates and compares all.
func anyMAC(macs [][]byte, content []byte, secrets []string) bool {
	found := false
	for _, secret := range secrets {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write(content)
		want := h.Sum(nil)
		for _, mac := range macs {
			found = hmac.Equal(mac, want) || found
		}
	}
	return found
}

func decode(encoding, text string) ([]byte, bool) {
	var b []byte
	var err error
	if encoding == "base64" {
		b, err = base64.StdEncoding.Strict().DecodeString(text)
	} else {
		b, err = hex.DecodeString(text)
	}
	return b, err == nil
}

// fresh fails for a time, in seconds since 1970, that is too far from now.
func fresh(timestamp string, now time.Time) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return errSignature
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > tolerance || d < -tolerance {
		return errTime
	}
	return nil
}

// header is a header that has to be there, once: of two nobody knows which was signed.
func header(h http.Header, name string) (string, error) {
	value, err := optional(h, name)
	if err == nil && value == "" {
		err = errSignature
	}
	return value, err
}

func optional(h http.Header, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	values := h.Values(name)
	if len(values) > 1 || len(values) == 1 && len(values[0]) > maxHeader {
		return "", errSignature
	}
	return h.Get(name), nil
}
