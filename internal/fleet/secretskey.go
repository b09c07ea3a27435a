package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// publishedKey is a key for secrets, as a worker published it.
type publishedKey struct {
	Public []byte    `json:"public"`
	SeenAt time.Time `json:"seen_at"`
}

// PublishSecretsKey says that workers can open what is sealed with this key.
func (f *Fleet) PublishSecretsKey(ctx context.Context, k secrets.PublicKey) error {
	b, err := json.Marshal(publishedKey{k.Bytes(), f.now().UTC()})
	if err == nil {
		err = f.publish(ctx, secretsKeysKey, k.ID, b)
	}
	if err != nil {
		return fmt.Errorf("publish key for secrets: %w", err)
	}
	return nil
}

// SecretsKey is the key that was published last, or job.ErrNoSecretsKey.
func (f *Fleet) SecretsKey(ctx context.Context) (secrets.PublicKey, error) {
	all, err := f.published(ctx, secretsKeysKey)
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
		if err != nil || k.ID != id || !f.seen(said.SeenAt) {
			f.unreadable.PassOver(secretsKeysKey, fmt.Errorf("key for secrets %.100q, seen at %s: %w", id, said.SeenAt, err))
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
