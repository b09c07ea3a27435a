package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Asked is what was asked for under an idempotency key, as a SHA-256.
type Asked [sha256.Size]byte

// NewAsked of what a client sent.
func NewAsked(body []byte) Asked { return sha256.Sum256(body) }

func (a Asked) String() string { return hex.EncodeToString(a[:]) }

// hashKey is what an idempotency key is called in Redis, as it may hold anything; "" for none.
func hashKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// keyed is what the create script knows of idempotency keys. One whose job is no longer
// kept is forgotten.
const keyed = `
local function idem(key) return t .. 'idem:' .. key end
local function named(key, asked)
  local id, before = string.match(call('GET', idem(key)) or '', '^(%S+) (%S+)$')
  if id and call('EXISTS', job(id)) == 1 then return id, before == asked end
end
`

// Named returns the id of the job that the key began within the last 24 hours. It fails
// with ErrNotFound where there is none, or none any more, and with ErrConflict where
// something else was asked for.
func (s *Store) Named(ctx context.Context, tenant, key string, asked Asked) (id string, err error) {
	held, err := s.rdb.Get(ctx, idemKey(tenant, key)).Result()
	if errors.Is(err, redis.Nil) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("read idempotency key: %w", err)
	}
	id, before, _ := strings.Cut(held, " ")
	there, err := s.rdb.Exists(ctx, jobKey(tenant, id)).Result()
	switch {
	case err != nil:
		return "", fmt.Errorf("read idempotency key: %w", err)
	case there == 0:
		return "", ErrNotFound
	case before != asked.String():
		return "", ErrConflict
	}
	return id, nil
}
