package record

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	tokenRandom  = 20 // bytes: 160 bits, 32 characters of base32
	tokenIDBytes = 5  // 8 characters
	tokenField   = "token:"
)

// tokenHash is the SHA-256 of a token: tokens are random, so a plain hash is enough.
type tokenHash [sha256.Size]byte

func (h tokenHash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

func (h *tokenHash) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(h)) {
		return errors.New("a token's hash has the wrong length")
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// storedToken is a token as its tenant's record holds it.
type storedToken struct {
	Hash    tokenHash `json:"hash"`
	Label   string    `json:"label,omitempty"`
	Created int64     `json:"created"`
	// Scopes that it is narrowed to; none for all.
	Scopes  []job.Scope `json:"scopes,omitempty"`
	Expires int64       `json:"expires,omitempty"` // ms
}

// wire is what is told of the token of that id, which was used last at that time, in ms.
func (t storedToken) wire(id string, used int64) job.Token {
	w := job.Token{ID: id, Label: t.Label, CreatedAt: time.UnixMilli(t.Created).UTC(), Scopes: t.Scopes}
	if len(w.Scopes) == 0 {
		w.Scopes = job.Scopes()
	}
	if t.Expires != 0 {
		at := time.UnixMilli(t.Expires).UTC()
		w.ExpiresAt = &at
	}
	if used != 0 {
		at := time.UnixMilli(used).UTC()
		w.LastUsedAt = &at
	}
	return w
}

// provenToken is a token with what proves it.
type provenToken struct {
	hash tokenHash
	job.Token
}

// Token returns what is known of a token, if it is one of the tenant's; it may have
// expired. It is compared with every one of them, so that the time it takes says nothing.
func (t TenantRecord) Token(token string) (known job.Token, ok bool) {
	got := sha256.Sum256([]byte(token))
	for _, want := range t.proofs {
		if subtle.ConstantTimeCompare(got[:], want.hash[:]) == 1 {
			known, ok = want.Token, true
		}
	}
	return known, ok
}

// AddToken makes a new token of the tenant, with the label, scopes and expiry of like, and
// returns it: nobody can read it again. It fails with job.ErrNoTenant or job.ErrTooManyTokens. The
// caller has checked like.
func (s *Store) AddToken(ctx context.Context, tenant string, like job.Token) (token string, known job.Token, err error) {
	if !job.ValidTenant(tenant) {
		return "", known, job.ErrNoTenant
	}
	var random [tokenRandom]byte
	var id [tokenIDBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	rand.Read(id[:])
	token = job.TokenPrefix + tenant + "_" + job.EncodeID(random[:])
	now := s.now().UTC()
	stored := storedToken{Hash: sha256.Sum256([]byte(token)), Label: like.Label, Created: ms(now), Scopes: like.Scopes}
	if like.ExpiresAt != nil {
		stored.Expires = ms(*like.ExpiresAt)
	}
	known = stored.wire(job.EncodeID(id[:]), 0)
	b, err := json.Marshal(stored)
	if err != nil {
		return "", known, fmt.Errorf("encode token: %w", err)
	}
	answer, err := addTokenScript.Run(ctx, s.lasting, tenant, script.Args{"field": tokenField + known.ID, "token": b}).Text()
	switch {
	case err != nil:
		return "", known, fmt.Errorf("add token: %w", err)
	case answer == "missing":
		return "", known, job.ErrNoTenant
	case answer == "full":
		return "", known, job.ErrTooManyTokens
	case answer != "ok":
		return "", known, fmt.Errorf("add token: its id is %s", answer)
	}
	s.tenants.forget(tenant)
	return token, known, nil
}

// RevokeToken makes a token worthless: here at once, in other processes within a
// second. It fails with job.ErrNoTenant or job.ErrNoToken.
func (s *Store) RevokeToken(ctx context.Context, tenant, id string) error {
	if !job.ValidTenant(tenant) {
		return job.ErrNoTenant
	}
	pipe := s.rdb.Pipeline()
	gone := pipe.HDel(ctx, tenantKey(tenant), tokenField+id)
	pipe.HDel(ctx, tokenUseKey(tenant), id)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	s.tenants.forget(tenant)
	if err := s.Confirm(ctx); err != nil { // also where it is gone: by a try before, perhaps
		return fmt.Errorf("revoke token: %w", err)
	}
	if gone.Val() == 1 {
		return nil
	}
	if _, err := s.ReadTenant(ctx, tenant); err != nil {
		return err
	}
	return job.ErrNoToken
}
