package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const (
	privateKeyPrefix = "whsk_"
	publicKeyPrefix  = "whpk_"
)

// Errors of keys, which don't quote what they were given.
var (
	// ErrPrivateKey means that a string is no private key.
	ErrPrivateKey = errors.New("webhook private key is not whsk_ and the base64 of 32 bytes, or of 64: seed and public key")
	// ErrPublicKey means that a string is no public key.
	ErrPublicKey = errors.New("webhook public key is not whpk_ and the base64 of 32 bytes")
)

// PrivateKey makes signatures of version v1a, Ed25519, which whoever has its public key
// can check and nobody but the sender can make. It prints as "whsk_…".
type PrivateKey struct{ key ed25519.PrivateKey }

// ParsePrivateKey reads "whsk_" and standard base64 of 32 bytes, the seed, or of 64, seed
// and public key. Its error is [ErrPrivateKey].
func ParsePrivateKey(text string) (PrivateKey, error) {
	b, err := parseKey(text, privateKeyPrefix, ErrPrivateKey)
	switch {
	case err != nil:
		return PrivateKey{}, err
	case len(b) == ed25519.SeedSize:
		return PrivateKey{ed25519.NewKeyFromSeed(b)}, nil
	case len(b) != ed25519.PrivateKeySize:
		return PrivateKey{}, fmt.Errorf("%w: it has %d bytes", ErrPrivateKey, len(b))
	}
	key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
	if !bytes.Equal(key, b) { // a signature with another one's public key would give the seed away
		return PrivateKey{}, fmt.Errorf("%w: its public key is that of another seed", ErrPrivateKey)
	}
	return PrivateKey{key}, nil
}

// Reveal returns the text that [ParsePrivateKey] reads, with the public key in it.
func (k PrivateKey) Reveal() string {
	return privateKeyPrefix + base64.StdEncoding.EncodeToString(k.key)
}

// Public returns the key that verifies what k signs.
func (k PrivateKey) Public() PublicKey {
	if len(k.key) != ed25519.PrivateKeySize {
		return PublicKey{} // of a zero PrivateKey, and verifies nothing
	}
	public, _ := k.key.Public().(ed25519.PublicKey)
	return PublicKey{public}
}

// String hides the key.
func (k PrivateKey) String() string { return privateKeyPrefix + "…" }

// Format hides the key from every verb of package fmt.
func (k PrivateKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue hides the key from log/slog.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

func (k PrivateKey) sign(content []byte) (string, error) {
	if len(k.key) != ed25519.PrivateKeySize {
		return "", ErrPrivateKey
	}
	return versionAsymmetric + "," + base64.StdEncoding.EncodeToString(ed25519.Sign(k.key, content)), nil
}

// PublicKey verifies what a [PrivateKey] signed. It is no secret.
type PublicKey struct{ key ed25519.PublicKey }

// ParsePublicKey reads "whpk_" and standard base64 of 32 bytes. Its error is
// [ErrPublicKey].
func ParsePublicKey(text string) (PublicKey, error) {
	b, err := parseKey(text, publicKeyPrefix, ErrPublicKey)
	if err != nil {
		return PublicKey{}, err
	}
	if len(b) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("%w: it has %d bytes", ErrPublicKey, len(b))
	}
	return PublicKey{b}, nil
}

// String is the text that [ParsePublicKey] reads.
func (k PublicKey) String() string {
	return publicKeyPrefix + base64.StdEncoding.EncodeToString(k.key)
}

func (k PublicKey) verifies(version, signature string, content []byte) bool {
	if version != versionAsymmetric || len(k.key) != ed25519.PublicKeySize {
		return false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && len(b) == ed25519.SignatureSize && ed25519.Verify(k.key, content, b)
}

// parseKey reads prefix and standard base64. Its error is kind and says why.
func parseKey(text, prefix string, kind error) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, fmt.Errorf("%w: it does not begin with %s", kind, prefix)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return nil, fmt.Errorf("%w: it is no standard base64", kind)
	}
	return b, nil
}
