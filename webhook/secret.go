package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
	newSecretBytes = 32
)

// ErrSecret means that a string is no webhook secret.
var ErrSecret = errors.New("webhook secret is not whsec_ and the base64 of 24 to 64 bytes")

// Secret is what sender and receiver of a webhook share. It prints as "whsec_…", so
// that no log holds it; [Secret.Reveal] is the way to its text.
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
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it does not begin with whsec_", ErrSecret)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return Secret{}, fmt.Errorf("%w: it is no standard base64", ErrSecret)
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
