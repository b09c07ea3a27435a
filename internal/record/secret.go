package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// publishedKey is a key for secrets, as a worker published it.
type publishedKey struct {
	Public []byte    `json:"public"`
	SeenAt time.Time `json:"seen_at"`
}

// PublishSecretsKey says that workers can open what is sealed with this key.
func (s *Store) PublishSecretsKey(ctx context.Context, k secrets.PublicKey) error {
	b, err := json.Marshal(publishedKey{k.Bytes(), s.now().UTC()})
	if err == nil {
		err = s.publish(ctx, secretsKeysKey, k.ID, b)
	}
	if err != nil {
		return fmt.Errorf("publish key for secrets: %w", err)
	}
	return nil
}

// SecretsKey is the key that was published last, or job.ErrNoSecretsKey.
func (s *Store) SecretsKey(ctx context.Context) (secrets.PublicKey, error) {
	all, err := s.published(ctx, secretsKeysKey)
	if err != nil {
		return secrets.PublicKey{}, fmt.Errorf("read key for secrets: %w", err)
	}
	var last secrets.PublicKey
	var seen time.Time
	for id, b := range all {
		var said publishedKey
		err := json.Unmarshal([]byte(b), &said)
		var k secrets.PublicKey
		if err == nil {
			k, err = secrets.ParsePublic(said.Public)
		}
		if err != nil || k.ID != id || !s.seen(said.SeenAt) {
			s.unreadable.PassOver(secretsKeysKey, fmt.Errorf("key for secrets %.100q, seen at %s: %w", id, said.SeenAt, err))
			continue
		}
		if said.SeenAt.After(seen) {
			last, seen = k, said.SeenAt
		}
	}
	if seen.IsZero() {
		return secrets.PublicKey{}, job.ErrNoSecretsKey
	}
	return last, nil
}

// storedSecret is a secret in its tenant's hash.
type storedSecret struct {
	secrets.Sealed
	Updated time.Time `json:"updated_at"`
}

// SetSecret stores a tenant's secret, in the place of one of that name. It fails with
// job.ErrTooManySecrets.
func (s *Store) SetSecret(ctx context.Context, tenant, name string, sealed secrets.Sealed) (job.Secret, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	b, err := json.Marshal(storedSecret{sealed, now})
	if err != nil {
		return job.Secret{}, fmt.Errorf("set secret: %w", err)
	}
	answer, err := setSecretScript.Run(ctx, s.rdb, tenant, script.Args{"name": name, "secret": b}).Text()
	switch {
	case err != nil:
		return job.Secret{}, fmt.Errorf("set secret: %w", err)
	case answer == "full":
		return job.Secret{}, job.ErrTooManySecrets
	}
	return job.Secret{Name: name, UpdatedAt: now}, nil
}

// DeleteSecret forgets a tenant's secret. It fails with job.ErrNoSecret.
func (s *Store) DeleteSecret(ctx context.Context, tenant, name string) error {
	n, err := s.rdb.HDel(ctx, secretsKey(tenant), name).Result()
	switch {
	case err != nil:
		return fmt.Errorf("delete secret: %w", err)
	case n == 0:
		return job.ErrNoSecret
	}
	return nil
}

// Secrets lists a tenant's secrets by name: all but what they are.
func (s *Store) Secrets(ctx context.Context, tenant string) ([]job.Secret, error) {
	all, err := s.rdb.HGetAll(ctx, secretsKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	list := make([]job.Secret, 0, len(all))
	for name, b := range all {
		var stored storedSecret
		if err := json.Unmarshal([]byte(b), &stored); err != nil {
			return nil, fmt.Errorf("read secret %s: %w", name, err)
		}
		list = append(list, job.Secret{Name: name, UpdatedAt: stored.Updated})
	}
	slices.SortFunc(list, func(a, b job.Secret) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// SecretNames are the names of a tenant's secrets, sorted.
func (s *Store) SecretNames(ctx context.Context, tenant string) ([]string, error) {
	names, err := s.rdb.HKeys(ctx, secretsKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// SealedSecret returns a tenant's secret as it is stored, or job.ErrNoSecret.
func (s *Store) SealedSecret(ctx context.Context, tenant, name string) (secrets.Sealed, error) {
	b, err := s.rdb.HGet(ctx, secretsKey(tenant), name).Bytes()
	if errors.Is(err, redis.Nil) {
		return secrets.Sealed{}, job.ErrNoSecret
	}
	var stored storedSecret
	if err == nil {
		err = json.Unmarshal(b, &stored)
	}
	if err != nil {
		return secrets.Sealed{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	return stored.Sealed, nil
}
