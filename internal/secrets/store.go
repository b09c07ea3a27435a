package secrets

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

//go:embed lua
var luaFiles embed.FS

// Scripts are those of the Store.
var Scripts = script.New(luaFiles, map[string]any{"max_secrets": job.MaxSecrets})

var setSecretScript = Scripts.Load("set_secret")

// Store has the secrets that tenants stored, sealed. Safe for concurrent use.
type Store struct {
	rdb redis.UniversalClient
}

// NewStore returns the secrets in that Redis.
func NewStore(rdb redis.UniversalClient) *Store { return &Store{rdb} }

func key(tenant string) string { return script.Key(tenant, "secrets") }

// stored is a secret in its tenant's hash.
type stored struct {
	Sealed
	Updated time.Time `json:"updated_at"`
}

// Set stores a tenant's secret, in the place of one of that name. It fails with
// job.ErrTooManySecrets.
func (s *Store) Set(ctx context.Context, tenant, name string, sealed Sealed) (job.Secret, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	b, err := json.Marshal(stored{sealed, now})
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

// Delete forgets a tenant's secret. It fails with job.ErrNoSecret.
func (s *Store) Delete(ctx context.Context, tenant, name string) error {
	n, err := s.rdb.HDel(ctx, key(tenant), name).Result()
	switch {
	case err != nil:
		return fmt.Errorf("delete secret: %w", err)
	case n == 0:
		return job.ErrNoSecret
	}
	return nil
}

// List lists a tenant's secrets by name: all but what they are.
func (s *Store) List(ctx context.Context, tenant string) ([]job.Secret, error) {
	all, err := s.rdb.HGetAll(ctx, key(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	list := make([]job.Secret, 0, len(all))
	for name, b := range all {
		var in stored
		if err := json.Unmarshal([]byte(b), &in); err != nil {
			return nil, fmt.Errorf("read secret %s: %w", name, err)
		}
		list = append(list, job.Secret{Name: name, UpdatedAt: in.Updated})
	}
	slices.SortFunc(list, func(a, b job.Secret) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Names are the names of a tenant's secrets, sorted.
func (s *Store) Names(ctx context.Context, tenant string) ([]string, error) {
	names, err := s.rdb.HKeys(ctx, key(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Get returns a tenant's secret as it is stored, or job.ErrNoSecret.
func (s *Store) Get(ctx context.Context, tenant, name string) (Sealed, error) {
	b, err := s.rdb.HGet(ctx, key(tenant), name).Bytes()
	if errors.Is(err, redis.Nil) {
		return Sealed{}, job.ErrNoSecret
	}
	var in stored
	if err == nil {
		err = json.Unmarshal(b, &in)
	}
	if err != nil {
		return Sealed{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	return in.Sealed, nil
}
