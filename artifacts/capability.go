package artifacts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What is wrong with a token. Only a token that was authentic is said to be expired.
var (
	ErrTokenInvalid = errors.New("artifact token is not valid for this URL")
	ErrTokenExpired = errors.New("artifact token has expired")
)

const (
	// minTokenKey is the output size of SHA-256: less than that weakens the HMAC.
	minTokenKey    = 32
	maxTokenBytes  = 512
	tokenDomain    = "glovebox artifact token v1"
	tokenSeparator = "."
)

// Capability is what a token permits: reading one thing of one job, for a while.
type Capability struct {
	Tenant, Job string
	// Path names what may be read below the job as the URL does: "artifacts/plot.png",
	// "stdout". It is part of the URL and not of the token.
	Path    string
	Expires time.Time
}

// TokenKey signs tokens. Its ID is public: it says which key a token was signed with.
type TokenKey struct {
	ID     string
	Secret []byte
}

// Tokens signs and verifies capability tokens. It is safe for concurrent use.
type Tokens struct {
	first TokenKey
	byID  map[string]TokenKey
}

// NewTokens returns Tokens that sign with the first key and accept every key. To
// rotate, put the new key first, and drop the old one when the last token it signed
// has expired; to revoke at once, drop it now.
func NewTokens(keys ...TokenKey) (*Tokens, error) {
	if len(keys) == 0 {
		return nil, errors.New("read artifact token keys: there is none")
	}
	t := &Tokens{first: keys[0], byID: map[string]TokenKey{}}
	for _, k := range keys {
		if !validID(k.ID) {
			return nil, fmt.Errorf("read artifact token key: id %.80q is not 1 to %d letters, digits, - or _", k.ID, maxIDBytes)
		}
		if len(k.Secret) < minTokenKey {
			return nil, fmt.Errorf("read artifact token key %q: %d bytes, at least %d are needed", k.ID, len(k.Secret), minTokenKey)
		}
		if _, twice := t.byID[k.ID]; twice {
			return nil, fmt.Errorf("read artifact token keys: id %q appears more than once", k.ID)
		}
		t.byID[k.ID] = k
	}
	return t, nil
}

// Sign returns a token for c, in characters that need no escaping in a URL. The token
// carries the tenant, which therefore must be one that [JobKeys] accepts.
func (t *Tokens) Sign(c Capability) (string, error) {
	if !validID(c.Tenant) {
		return "", fmt.Errorf("sign artifact token: tenant %.80q is not 1 to %d letters, digits, - or _", c.Tenant, maxIDBytes)
	}
	mac := base64.RawURLEncoding.EncodeToString(t.first.mac(c))
	return strings.Join([]string{t.first.ID, c.Tenant, strconv.FormatInt(c.Expires.Unix(), 10), mac}, tokenSeparator), nil
}

// Verify returns what token permits, if it permits path of job at the time now. It
// fails with [ErrTokenInvalid] or [ErrTokenExpired].
func (t *Tokens) Verify(token, job, path string, now time.Time) (Capability, error) {
	fields := strings.Split(token, tokenSeparator)
	if len(token) > maxTokenBytes || len(fields) != 4 {
		return Capability{}, ErrTokenInvalid
	}
	key, known := t.byID[fields[0]]
	seconds, err := strconv.ParseInt(fields[2], 10, 64)
	mac, macErr := base64.RawURLEncoding.Strict().DecodeString(fields[3])
	if !known || err != nil || macErr != nil || strconv.FormatInt(seconds, 10) != fields[2] {
		return Capability{}, ErrTokenInvalid
	}
	c := Capability{Tenant: fields[1], Job: job, Path: path, Expires: time.Unix(seconds, 0)}
	if !hmac.Equal(mac, key.mac(c)) {
		return Capability{}, ErrTokenInvalid
	}
	if !now.Before(c.Expires) {
		return Capability{}, ErrTokenExpired
	}
	return c, nil
}

// mac writes each field after its length, so that no two capabilities are the same
// bytes: tenant "a", job "bc" is not tenant "ab", job "c".
func (k TokenKey) mac(c Capability) []byte {
	h := hmac.New(sha256.New, k.Secret)
	for _, field := range []string{tokenDomain, k.ID, c.Tenant, c.Job, c.Path} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(field)))
		h.Write(length[:])
		h.Write([]byte(field))
	}
	var expires [8]byte
	binary.BigEndian.PutUint64(expires[:], uint64(c.Expires.Unix()))
	h.Write(expires[:])
	return h.Sum(nil)
}
