package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
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
// with job.ErrConflict where something else was asked for. As the try before may have been told that replicas
// don't have it, they confirm what is found, here and below.
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
	if err := s.Confirm(ctx); err != nil {
		return "", fmt.Errorf("read idempotency key: %w", err)
	}
	return id, nil
}

// FindRunByKey returns the id of the run that an idempotency key began, which stands for asked. It fails with job.ErrNotFound where there is none, and else as OpenRun does.
func (s *Store) FindRunByKey(ctx context.Context, tenant, key string, asked []byte) (id string, err error) {
	id, err = s.findByKey(ctx, "run", runKeyKey(tenant, key), func(id string) string { return runKey(tenant, id) }, asked)
	if err == nil && id == "" {
		err = job.ErrNotFound
	}
	return id, err
}

// FindSessionByKey returns the session that an idempotency key began, which stands for asked. It fails with job.ErrNoSession where there is none, and else as OpenSession does.
func (s *Store) FindSessionByKey(ctx context.Context, tenant, key string, asked []byte) (Session, error) {
	id, err := s.findByKey(ctx, "session", sessionKeyKey(tenant, key), func(id string) string { return sessionKey(tenant, id) }, asked)
	switch {
	case err != nil:
		return Session{}, err
	case id == "":
		return Session{}, job.ErrNoSession
	}
	return s.GetSession(ctx, id)
}

// SessionOfKey returns the id of the session that an idempotency key began, or "". It may be no longer kept.
func (s *Store) SessionOfKey(ctx context.Context, tenant, key string) (string, error) {
	return s.idOfKey(ctx, "session", sessionKeyKey(tenant, key))
}

// findByKey returns the id of what an idempotency key began, or "". It fails with job.ErrConflict where that was asked for otherwise, and with a *job.GoneError where its
// record is no longer kept.
func (s *Store) findByKey(ctx context.Context, what, keyKey string, recordKey func(id string) string, asked []byte) (string, error) {
	id, err := s.idOfKey(ctx, what, keyKey)
	if err != nil || id == "" {
		return "", err
	}
	options, err := s.rdb.HGet(ctx, recordKey(id), "options").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", &job.GoneError{ID: id}
	case err != nil:
		return "", fmt.Errorf("find %s by its key: %w", what, err)
	case options != hashAsked(asked):
		return "", job.ErrConflict
	}
	if err := s.Confirm(ctx); err != nil {
		return "", fmt.Errorf("find %s by its key: %w", what, err)
	}
	return id, nil
}

func (s *Store) idOfKey(ctx context.Context, what, keyKey string) (string, error) {
	id, err := s.rdb.Get(ctx, keyKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("find %s by its key: %w", what, err)
	}
	return id, nil
}

// runKeyKey is where an idempotency key says which run it began.
func runKeyKey(tenant, key string) string { return script.Key(tenant, "runidem:"+hashKey(key)) }

// sessionKeyKey is where an idempotency key says which session it began.
func sessionKeyKey(tenant, key string) string {
	return script.Key(tenant, "sessionidem:"+hashKey(key))
}

// hashAsked is what a record has of what was asked for under an idempotency key.
func hashAsked(asked []byte) string {
	sum := sha256.Sum256(asked)
	return hex.EncodeToString(sum[:16])
}
