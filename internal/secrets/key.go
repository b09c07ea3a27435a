// Package secrets seals what tenants store for their jobs, so that only workers can read
// it: HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-256-GCM. docs/adr/0011-secrets.md
// says who has which key.
package secrets

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const keySize = 32

var (
	kem  = hpke.DHKEM(ecdh.X25519())
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES256GCM()
)

// ErrUnreadable is what was not sealed for that tenant and name, or is damaged.
var ErrUnreadable = errors.New("it can't be read")

// ErrNoKey is what was sealed with a key that isn't there.
var ErrNoKey = errors.New("it is sealed with another key")

// PublicKey seals. It is no secret.
type PublicKey struct {
	// ID is derived from the key.
	ID  string
	key hpke.PublicKey
}

// Sealed is a secret that only who has the key can read.
type Sealed struct {
	Key  string `json:"key"` // ID of the key
	Data []byte `json:"data"`
}

// Seal seals the value of a tenant's secret. What is moved to another tenant or another
// name can't be opened.
func (p PublicKey) Seal(tenant, name string, value []byte) (Sealed, error) {
	data, err := hpke.Seal(p.key, kdf, aead, info(tenant, name), value)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal secret %s: %w", name, err)
	}
	return Sealed{Key: p.ID, Data: data}, nil
}

// info binds a secret to its place. Neither word can have a line's end.
func info(tenant, name string) []byte { return []byte("glovebox/secret/v1\n" + tenant + "\n" + name) }

// ParsePublic reads what Bytes wrote.
func ParsePublic(b []byte) (PublicKey, error) {
	key, err := kem.NewPublicKey(b)
	if err != nil {
		return PublicKey{}, fmt.Errorf("read key for secrets: %w", err)
	}
	return PublicKey{keyID(b), key}, nil
}

// Bytes is the key as it is published.
func (p PublicKey) Bytes() []byte { return p.key.Bytes() }

func keyID(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Keys open what was sealed with any of them. The first is the one to seal with.
type Keys struct {
	first PublicKey
	byID  map[string]hpke.PrivateKey
}

// ParseKeys reads keys of 32 random bytes in base64, separated by spaces. The error tells
// nothing of them.
func ParseKeys(s string) (*Keys, error) {
	k := &Keys{byID: map[string]hpke.PrivateKey{}}
	for i, word := range strings.Fields(s) {
		b, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(b) != keySize {
			return nil, errors.New("want 32 bytes in base64")
		}
		private, err := kem.NewPrivateKey(b)
		if err != nil {
			return nil, errors.New("want 32 random bytes in base64")
		}
		public, err := ParsePublic(private.PublicKey().Bytes())
		if err != nil {
			return nil, err
		}
		if i == 0 {
			k.first = public
		}
		k.byID[public.ID] = private
	}
	if len(k.byID) == 0 {
		return nil, errors.New("want 32 bytes in base64")
	}
	return k, nil
}

// Public is the key to seal with.
func (k *Keys) Public() PublicKey { return k.first }

// Open returns what was sealed for that tenant and name. It fails with ErrNoKey or ErrUnreadable.
func (k *Keys) Open(tenant, name string, s Sealed) ([]byte, error) {
	private, ok := k.byID[s.Key]
	if !ok {
		return nil, fmt.Errorf("open secret %s: %w (%.40q)", name, ErrNoKey, s.Key)
	}
	value, err := hpke.Open(private, kdf, aead, info(tenant, name), s.Data)
	if err != nil {
		return nil, fmt.Errorf("open secret %s: %w: %w", name, ErrUnreadable, err)
	}
	return value, nil
}

// NewKey returns a random key, as ParseKeys reads it.
func NewKey() string {
	b := make([]byte, keySize)
	rand.Read(b) // never fails: it ends the program instead
	return base64.StdEncoding.EncodeToString(b)
}
