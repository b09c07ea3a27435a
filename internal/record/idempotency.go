package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// RequestHash is the SHA-256 of what a client sent under an idempotency key.
type RequestHash [sha256.Size]byte

// HashRequest returns the hash of what a client sent.
func HashRequest(body []byte) RequestHash { return sha256.Sum256(body) }

func (h RequestHash) String() string { return hex.EncodeToString(h[:]) }

// hashKey is what an idempotency key is called in Redis, as it may hold anything; "" for none.
func hashKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// FindByKey returns the id of the job that the key began within the last 24 hours. It fails
// with job.ErrNotFound where there is none, with a *job.GoneError where that is no longer kept, and
// with job.ErrConflict where something else was asked for.
func (s *Store) FindByKey(ctx context.Context, tenant, key string, request RequestHash) (id string, err error) {
	held, err := s.rdb.Get(ctx, idemKey(tenant, key)).Result()
	if errors.Is(err, redis.Nil) {
		return "", job.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("read idempotency key: %w", err)
	}
	id, before, _ := strings.Cut(held, " ")
	there, err := s.rdb.Exists(ctx, jobKey(tenant, id)).Result()
	switch {
	case err != nil:
		return "", fmt.Errorf("read idempotency key: %w", err)
	case before != request.String():
		return "", job.ErrConflict
	case there == 0:
		return "", &job.GoneError{ID: id}
	}
	return id, nil
}
