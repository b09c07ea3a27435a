package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// DefaultTolerance is how far a timestamp may be from now, either way.
const DefaultTolerance = 5 * time.Minute

const (
	maxIDBytes        = 256
	maxSignatureBytes = 4 << 10
)

// What [Verify] finds wrong.
var (
	ErrMissingHeader   = errors.New("webhook header is missing")
	ErrMalformedHeader = errors.New("webhook header is malformed")
	ErrSignature       = errors.New("no signature of the webhook is valid")
	ErrTooOld          = errors.New("webhook is too old")
	ErrTooNew          = errors.New("webhook is from the future")
)

// Sign returns the three headers for a message: a signature by each secret, so that a
// receiver who has the old or the new one accepts it during a rotation.
//
// id names the message and stays the same across attempts; t is the attempt's time.
func Sign(secrets []Secret, id string, t time.Time, body []byte) (http.Header, error) {
	if len(secrets) == 0 {
		return nil, errors.New("sign webhook: there is no secret")
	}
	if !validID(id) {
		return nil, fmt.Errorf("sign webhook: id %.80q is not 1 to %d visible characters without a dot", id, maxIDBytes)
	}
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signer, err := s.standard()
		if err == nil {
			signatures[i], err = signer.Sign(id, t, body)
		}
		if err != nil {
			return nil, fmt.Errorf("sign webhook: %w", err)
		}
	}
	h := http.Header{}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(t.Unix(), 10))
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return h, nil
}

// Verify checks that body and headers were signed with one of the secrets, at most
// tolerance from now. Use [DefaultTolerance] unless you know better.
//
// [ErrTooOld] and [ErrTooNew] are told only of a message with a valid signature: they
// mean a replay, or a clock that is wrong.
func Verify(h http.Header, body []byte, secrets []Secret, tolerance time.Duration, now time.Time) error {
	for _, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		switch values := h.Values(name); {
		case len(values) == 0 || values[0] == "":
			return fmt.Errorf("%w: %s", ErrMissingHeader, strings.ToLower(name))
		case len(values) > 1: // which of them was signed?
			return fmt.Errorf("%w: %s is there %d times", ErrMalformedHeader, strings.ToLower(name), len(values))
		}
	}
	if !validID(h.Get(HeaderID)) {
		return fmt.Errorf("%w: webhook-id", ErrMalformedHeader)
	}
	seconds, err := strconv.ParseInt(h.Get(HeaderTimestamp), 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != h.Get(HeaderTimestamp) {
		return fmt.Errorf("%w: webhook-timestamp is no Unix time", ErrMalformedHeader)
	}
	if len(h.Get(HeaderSignature)) > maxSignatureBytes {
		return fmt.Errorf("%w: webhook-signature is too long", ErrMalformedHeader)
	}
	if !signedByAny(h, body, secrets) {
		return ErrSignature
	}
	// The library has one tolerance for everybody and its own clock, so time is ours.
	switch sent := time.Unix(seconds, 0); {
	case now.Sub(sent) > tolerance:
		return fmt.Errorf("%w: sent %s ago, at most %s is allowed", ErrTooOld, now.Sub(sent).Round(time.Second), tolerance)
	case sent.Sub(now) > tolerance:
		return fmt.Errorf("%w: by %s, at most %s is allowed", ErrTooNew, sent.Sub(now).Round(time.Second), tolerance)
	}
	return nil
}

func signedByAny(h http.Header, body []byte, secrets []Secret) bool {
	for _, s := range secrets {
		if w, err := s.standard(); err == nil && w.VerifyIgnoringTimestamp(body, h) == nil {
			return true
		}
	}
	return false
}

// standard returns the library's form of a secret. It takes any key, also the empty
// one of a zero Secret, which would let anyone sign.
func (s Secret) standard() (*standardwebhooks.Webhook, error) {
	if len(s.key) < minSecretBytes {
		return nil, ErrSecret
	}
	return standardwebhooks.NewWebhookRaw(s.key)
}

// validID refuses what would make "id.timestamp.body" ambiguous, or no header.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || c == '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxIDBytes
}
