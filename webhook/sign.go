package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	// maxSignatures bounds what a stranger can have us calculate. Glovebox sends two, four
	// while a secret is rotated, and eight while its operator's key is, too.
	maxSignatures = 16
)

// The versions of signatures, as Standard Webhooks names them.
const (
	versionSymmetric  = "v1"
	versionAsymmetric = "v1a"
)

// Signer makes a signature of a message: a [Secret] or a [PrivateKey].
type Signer interface {
	// sign returns the version, a comma and the signature.
	sign(content []byte) (string, error)
}

// Verifier checks a signature of a message: a [Secret] or a [PublicKey].
type Verifier interface {
	verifies(version, signature string, content []byte) bool
}

var (
	_ Signer   = Secret{}
	_ Signer   = PrivateKey{}
	_ Verifier = Secret{}
	_ Verifier = PublicKey{}
)

// ParseVerifiers reads secrets and public keys, whsec_… and whpk_…, with spaces between:
// what a receiver's configuration has. There has to be one at least.
func ParseVerifiers(text string) ([]Verifier, error) {
	var list []Verifier
	for _, word := range strings.Fields(text) {
		var v Verifier
		var err error
		if strings.HasPrefix(word, publicKeyPrefix) {
			v, err = ParsePublicKey(word)
		} else {
			v, err = ParseSecret(word)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil, errors.New("there is neither a webhook secret, whsec_…, nor a public key, whpk_…")
	}
	return list, nil
}

// What [Verify] finds wrong.
var (
	ErrMissingHeader   = errors.New("webhook header is missing")
	ErrMalformedHeader = errors.New("webhook header is malformed")
	ErrSignature       = errors.New("no signature of the webhook is valid")
	ErrTooOld          = errors.New("webhook is too old")
	ErrTooNew          = errors.New("webhook is from the future")
)

// Sign returns the three headers for a message: a signature by each signer, so that a
// receiver who has the old or the new secret accepts it during a rotation, and one who has
// a public key needs no secret.
//
// id names the message and stays the same across attempts; t is the attempt's time.
func Sign(signers []Signer, id string, t time.Time, body []byte) (http.Header, error) {
	if len(signers) == 0 {
		return nil, errors.New("sign webhook: there is no secret")
	}
	if !validID(id) {
		return nil, fmt.Errorf("sign webhook: id %.80q is not 1 to %d visible characters without a dot", id, maxIDBytes)
	}
	signed := content(id, strconv.FormatInt(t.Unix(), 10), body)
	signatures := make([]string, len(signers))
	for i, s := range signers {
		var err error
		if signatures[i], err = s.sign(signed); err != nil {
			return nil, fmt.Errorf("sign webhook: %w", err)
		}
	}
	h := http.Header{}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(t.Unix(), 10))
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return h, nil
}

// content is what is signed: Standard Webhooks puts a dot between.
func content(id, timestamp string, body []byte) []byte {
	return append([]byte(id+"."+timestamp+"."), body...)
}

// Verify checks that one of the verifiers finds its signature of body and headers, made at
// most tolerance from now. Use [DefaultTolerance] unless you know better. Signatures of a
// version that it doesn't know count for nothing.
//
// [ErrTooOld] and [ErrTooNew] are told only of a message with a valid signature: they
// mean a replay, or a clock that is wrong.
func Verify(h http.Header, body []byte, verifiers []Verifier, tolerance time.Duration, now time.Time) error {
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
	signatures := strings.Fields(h.Get(HeaderSignature))
	if len(signatures) > maxSignatures {
		return fmt.Errorf("%w: webhook-signature has %d signatures, at most %d are allowed", ErrMalformedHeader, len(signatures), maxSignatures)
	}
	if !signedByAny(signatures, content(h.Get(HeaderID), h.Get(HeaderTimestamp), body), verifiers) {
		return ErrSignature
	}
	switch sent := time.Unix(seconds, 0); {
	case now.Sub(sent) > tolerance:
		return fmt.Errorf("%w: sent %s ago, at most %s is allowed", ErrTooOld, now.Sub(sent).Round(time.Second), tolerance)
	case sent.Sub(now) > tolerance:
		return fmt.Errorf("%w: by %s, at most %s is allowed", ErrTooNew, sent.Sub(now).Round(time.Second), tolerance)
	}
	return nil
}

func signedByAny(signatures []string, signed []byte, verifiers []Verifier) bool {
	for _, text := range signatures {
		version, signature, _ := strings.Cut(text, ",")
		for _, v := range verifiers {
			if v.verifies(version, signature, signed) {
				return true
			}
		}
	}
	return false
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
