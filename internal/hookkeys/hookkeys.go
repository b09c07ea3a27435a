// Package hookkeys derives what signs each tenant's webhooks from the key of the operator,
// so that no tenant's secret is stored anywhere. docs/adr/0024-webhook-secrets.md has the
// reasons.
package hookkeys

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/webhook"
)

const (
	keySize = 32
	// maxKeys bounds how many signatures a message has: one key, or two during a rotation.
	maxKeys = 2
)

// ErrKeys means that a text is no key of an operator's. It tells nothing of the text.
var ErrKeys = errors.New("want 32 random bytes in base64, or twice that with a space between: openssl rand -base64 32 makes one")

// Keys are the operator's: the first is the one to go by, a second one signs, too, while it
// is rotated. They print as "hookkeys.Keys".
type Keys struct{ keys [][]byte }

// Pair signs and verifies the messages of a tenant, or those to one endpoint of it.
type Pair struct {
	Secret webhook.Secret
	Key    webhook.PrivateKey
	// Expires is when it signs no more; zero for not yet known.
	Expires time.Time
}

// New makes a random key.
func New() string {
	key := make([]byte, keySize)
	rand.Read(key) // never fails: it ends the program instead
	return base64.StdEncoding.EncodeToString(key)
}

// Parse reads one key or two, or fails with ErrKeys.
func Parse(text string) (*Keys, error) {
	k := &Keys{}
	for _, word := range strings.Fields(text) {
		key, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(key) < keySize {
			return nil, ErrKeys
		}
		k.keys = append(k.keys, key)
	}
	if len(k.keys) == 0 || len(k.keys) > maxKeys {
		return nil, ErrKeys
	}
	return k, nil
}

// Format keeps the keys from every verb of package fmt.
func (k Keys) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("hookkeys.Keys")) }

// Pairs returns what signs the messages of a tenant, or those to the endpoint of that id, at a
// time. The first is the one to hand out.
func (k *Keys) Pairs(of string, s record.Signing, now time.Time) ([]Pair, error) {
	var list []Pair
	for _, key := range k.keys {
		current, err := derive(key, of, s.Generation)
		if err != nil {
			return nil, err
		}
		list = append(list, current)
		if !s.Rotating(now) {
			continue
		}
		previous, err := derive(key, of, s.Generation-1)
		if err != nil {
			return nil, err
		}
		previous.Expires = s.PreviousUntil
		list = append(list, previous)
	}
	return list, nil
}

// Signers returns all that sign a message of a tenant, or to an endpoint: signatures of version v1 come
// first, for receivers that look no further than they must.
func (k *Keys) Signers(of string, s record.Signing, now time.Time) ([]webhook.Signer, error) {
	pairs, err := k.Pairs(of, s, now)
	list := make([]webhook.Signer, 2*len(pairs))
	for i, p := range pairs {
		list[i], list[len(pairs)+i] = p.Secret, p.Key
	}
	return list, err
}

// Seals seal what hooks' senders sign with, and headers of endpoints, so that Redis alone tells nobody, workers included: the
// first one seals, each opens what it has sealed.
func (k *Keys) Seals() (*secrets.Keys, error) {
	words := make([]string, len(k.keys))
	for i, key := range k.keys {
		b, err := hkdf.Key(sha256.New, key, nil, "glovebox/hook/v1/seal", keySize)
		if err != nil {
			return nil, fmt.Errorf("derive key for hooks: %w", err)
		}
		words[i] = base64.StdEncoding.EncodeToString(b)
	}
	seals, err := secrets.ParseKeys(strings.Join(words, " "))
	if err != nil {
		return nil, fmt.Errorf("derive key for hooks: %w", err)
	}
	return seals, nil
}

// derive makes a tenant's or an endpoint's secret and key of one generation, with HKDF-SHA256 (RFC 5869).
func derive(key []byte, of string, generation int64) (p Pair, err error) {
	word := func(kind string) (string, error) {
		// Neither a tenant's name nor a number has a slash; an endpoint's id is that name, a hyphen, which it never has, and more.
		info := "glovebox/webhook/v1/" + kind + "/" + of + "/" + strconv.FormatInt(generation, 10)
		b, err := hkdf.Key(sha256.New, key, nil, info, keySize)
		return base64.StdEncoding.EncodeToString(b), err
	}
	secret, err := word("secret")
	if err != nil {
		return p, fmt.Errorf("derive webhook secret: %w", err)
	}
	seed, err := word("key")
	if err != nil {
		return p, fmt.Errorf("derive webhook key: %w", err)
	}
	if p.Secret, err = webhook.ParseSecret("whsec_" + secret); err != nil {
		return p, fmt.Errorf("derive webhook secret: %w", err)
	}
	if p.Key, err = webhook.ParsePrivateKey("whsk_" + seed); err != nil {
		return p, fmt.Errorf("derive webhook key: %w", err)
	}
	return p, nil
}
