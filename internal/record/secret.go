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
