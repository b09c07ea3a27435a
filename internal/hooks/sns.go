package hooks

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // version 1 of Amazon's signatures; of 2 publishers that collide both are the topic's
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// snsOld is how long ago a message may have been published: Amazon retries for up to an hour.
	snsOld = time.Hour
	// What Amazon Simple Notification Service posts.
	snsNotification = "Notification"
	snsSubscribed   = "SubscriptionConfirmation"
	snsUnsubscribed = "UnsubscribeConfirmation"
)

var (
	// snsSigned are the members that are signed of each type, in that order. Document:
	// docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
	snsSigned = map[string][]string{
		snsNotification: {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
		snsSubscribed:   {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
		snsUnsubscribed: {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	}
	snsID          = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	snsCertificate = regexp.MustCompile(`^/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem$`)
)

// snsMessage is one whose signature is yet to be verified.
type snsMessage struct {
	signed    map[string]any // the members that are signed, all of them text
	hash      crypto.Hash
	digest    []byte // of what is signed
	signature []byte
	certURL   string
	at        time.Time
}

// Verify is [Verify] for job.SenderSNS, whose requests are signed with Amazon's key in place of a secret: the
// hook's topic says whose they are. It fails with another error where the certificate can't be had now.
func (s *SNS) Verify(ctx context.Context, h job.HookSettings, r Request, now time.Time) (Delivery, error) {
	host, ok := job.SNSHost(h.TopicARN)
	m, err := readSNS(r.Body)
	if err != nil || !ok || m.text("TopicArn") != h.TopicARN {
		return Delivery{}, ErrSignature
	}
	if path, ok := strings.CutPrefix(m.certURL, "https://"+host); !ok || !snsCertificate.MatchString(path) {
		return Delivery{}, ErrSignature
	}
	key := s.known(m.certURL, now)
	if key == nil {
		if r.Permit != nil {
			if err := r.Permit(); err != nil {
				return Delivery{}, err
			}
		}
		if key, err = s.fetch(ctx, m.certURL, now); err != nil {
			return Delivery{}, err
		}
	}
	if rsa.VerifyPKCS1v15(key, m.hash, m.digest, m.signature) != nil {
		return Delivery{}, ErrSignature
	}
	if age := now.Sub(m.at); age > snsOld || age < -tolerance {
		return Delivery{}, ErrTime
	}
	d := Delivery{ID: m.text("MessageId"), Keys: keys(m.text("MessageId"), nil), Body: m.signed}
	switch m.text("Type") {
	case snsSubscribed:
		if !confirms(m.text("SubscribeURL"), host, h.TopicARN) {
			return Delivery{}, ErrSignature
		}
		d.Handshake, d.Note, d.Visit = &Answer{Status: http.StatusOK}, "the subscription is confirmed", m.text("SubscribeURL")
	case snsUnsubscribed: // its SubscribeURL would subscribe again, which is the owner's to do
		d.Handshake, d.Note = &Answer{Status: http.StatusOK}, "the subscription is ended: nothing more comes from the topic"
	}
	return d, nil
}

// text is a member that is signed.
func (m snsMessage) text(name string) string {
	text, _ := m.signed[name].(string)
	return text
}

// readSNS reads a message, whose member Type says what is signed. It fails with ErrSignature.
func readSNS(body []byte) (snsMessage, error) {
	m := snsMessage{signed: map[string]any{}}
	v, err := jsonvalue.Decode(bytes.TrimSpace(body))
	all, ok := v.(map[string]any)
	if err != nil || !ok {
		return m, ErrSignature
	}
	kind, _ := all["Type"].(string)
	names, ok := snsSigned[kind]
	if !ok {
		return m, ErrSignature
	}
	var content []byte
	for _, name := range names {
		if all[name] == nil && name == "Subject" { // then it isn't signed
			continue
		}
		text, ok := all[name].(string)
		// Names and values stand on lines of their own: in a value but the first, a line more could be taken for
		// the next name, and a message that was taken down be sent again as another.
		if !ok || name != "Message" && !oneLine(text) {
			return m, ErrSignature
		}
		m.signed[name] = text
		content = fmt.Appendf(content, "%s\n%s\n", name, text)
	}
	switch all["SignatureVersion"] {
	case "1":
		sum := sha1.Sum(content) //nolint:gosec // see above
		m.hash, m.digest = crypto.SHA1, sum[:]
	case "2":
		sum := sha256.Sum256(content)
		m.hash, m.digest = crypto.SHA256, sum[:]
	default:
		return m, ErrSignature
	}
	signature, _ := all["Signature"].(string)
	m.certURL, _ = all["SigningCertURL"].(string)
	if len(signature) > maxHeader || len(m.certURL) > maxHeader || !snsID.MatchString(m.text("MessageId")) {
		return m, ErrSignature
	}
	if m.signature, err = base64.StdEncoding.Strict().DecodeString(signature); err != nil {
		return m, ErrSignature
	}
	if m.at, err = time.Parse(time.RFC3339, m.text("Timestamp")); err != nil {
		return m, ErrSignature
	}
	return m, nil
}

func oneLine(text string) bool {
	return len(text) <= maxHeader && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// confirms reports whether a URL confirms the subscription to that topic, at Amazon's, and does nothing else.
func confirms(raw, host, topic string) bool {
	rest, ok := strings.CutPrefix(raw, "https://"+host+"/?")
	query, err := url.ParseQuery(rest)
	return ok && !strings.Contains(rest, "#") && err == nil && len(query["Action"]) == 1 && query.Get("Action") == "ConfirmSubscription" && len(query["TopicArn"]) == 1 && query.Get("TopicArn") == topic
}
