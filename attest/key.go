package attest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Algorithm is how attestations are signed.
const Algorithm = "ed25519"

// Key is a public key, as GET /v1/keys lists it.
type Key struct {
	// ID is derived from the key: the first 16 bytes of its SHA-256, in hex.
	ID        string `json:"id" doc:"The first 16 bytes of the public key's SHA-256, in hex." example:"21fe31dfa154a261626bf854046fd227"`
	Algorithm string `json:"algorithm" doc:"How it signs." example:"ed25519"`
	// PublicKey is the 32 bytes of RFC 8032, in base64.
	PublicKey []byte `json:"public_key" doc:"The 32 bytes of RFC 8032, in base64."`
	// NotBefore is when a worker published it first, SeenAt when one did last. Both are
	// for people: what a key signed stays valid.
	NotBefore time.Time `json:"not_before,omitzero" doc:"When a worker published it first."`
	SeenAt    time.Time `json:"seen_at,omitzero" doc:"When a worker published it last; one that was retired stays listed while there are results that it signed."`
}

// KeyList is the document that GET /v1/keys answers and [ParseKeys] reads.
type KeyList struct {
	Keys []Key `json:"keys" doc:"Keys that workers sign with, or did." nullable:"false"`
}

// maxKeys bounds a list of keys.
const maxKeys = 1024

// KeyID returns the id of a public key.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:16])
}

// ParseKeys reads the keys to trust, in the form of GET /v1/keys. A key of an algorithm
// that this version doesn't know is left out.
func ParseKeys(b []byte) ([]Key, error) {
	var list KeyList
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(list.Keys) > maxKeys {
		return nil, fmt.Errorf("read keys: there are %d, at most %d are read", len(list.Keys), maxKeys)
	}
	var known []Key
	for _, k := range list.Keys {
		if k.Algorithm != Algorithm {
			continue
		}
		if len(k.PublicKey) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("read keys: %.40q has %d bytes, want %d in base64", k.ID, len(k.PublicKey), ed25519.PublicKeySize)
		}
		if id := KeyID(k.PublicKey); k.ID != id {
			return nil, fmt.Errorf("read keys: one is called %.40q, and its id is %s", k.ID, id)
		}
		known = append(known, k)
	}
	if len(known) == 0 {
		return nil, errors.New(`read keys: there is none: want {"keys":[{"id", "algorithm":"ed25519", "public_key"}, …]}`)
	}
	return known, nil
}

// Signer holds a private key.
type Signer struct {
	private ed25519.PrivateKey
	key     Key
}

// NewSigner reads a signing key: the 32 bytes of an Ed25519 seed in base64, as
// `openssl rand -base64 32` makes one. Its error never repeats the key.
func NewSigner(seed string) (*Signer, error) {
	b, err := base64.StdEncoding.DecodeString(seed)
	if err != nil || len(b) != ed25519.SeedSize {
		return nil, fmt.Errorf("read signing key: not %d bytes in base64", ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(b)
	public := private.Public().(ed25519.PublicKey)
	return &Signer{private: private, key: Key{ID: KeyID(public), Algorithm: Algorithm, PublicKey: public}}, nil
}

// NewSeed returns a random signing key, for [NewSigner].
func NewSeed() string {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails: it ends the program instead
	return base64.StdEncoding.EncodeToString(seed)
}

// Key returns the public key, to publish. Its times are zero.
func (s *Signer) Key() Key { return s.key }

// String keeps the key out of logs.
func (s *Signer) String() string { return "signing key " + s.key.ID }

// GoString keeps it out of %#v.
func (s *Signer) GoString() string { return s.String() }
