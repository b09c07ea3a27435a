package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
)

const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
	newSecretBytes = 32
)

// ErrSecret means that a string is no webhook secret.
var ErrSecret = errors.New("webhook secret is not whsec_ and the base64 of 24 to 64 bytes")

// Secret is what sender and receiver of a webhook share: it makes signatures of version
// v1, HMAC-SHA256, and verifies them. It prints as "whsec_…", so that no log holds it;
// [Secret.Reveal] is the way to its text.
type Secret struct{ key []byte }

// NewSecret returns a random secret of 32 bytes.
func NewSecret() Secret {
	key := make([]byte, newSecretBytes)
	rand.Read(key) // never fails: it ends the program instead
	return Secret{key}
}

// ParseSecret reads "whsec_" and standard base64. Its error, [ErrSecret], does not
// quote what it was given.
func ParseSecret(text string) (Secret, error) {
	key, err := parseKey(text, secretPrefix, ErrSecret)
	if err != nil {
		return Secret{}, err
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return Secret{}, fmt.Errorf("%w: it has %d bytes", ErrSecret, len(key))
	}
	return Secret{key}, nil
}

// Reveal returns the text that [ParseSecret] reads.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "…" }

// Format hides the secret from every verb of package fmt; %d would print its bytes.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue hides the secret from log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s Secret) sign(content []byte) (string, error) {
	if len(s.key) < minSecretBytes {
		return "", ErrSecret // a zero Secret, with which anyone could sign
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write(content)
	return versionSymmetric + "," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

func (s Secret) verifies(version, signature string, content []byte) bool {
	if version != versionSymmetric {
		return false
	}
	want, err := s.sign(content)
	return err == nil && hmac.Equal([]byte(want), []byte(versionSymmetric+","+signature))
}
