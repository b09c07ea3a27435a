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
	"github.com/glovebox-run/glovebox/job"
)

// maxHookDeliveries is how many deliveries of a hook are kept to show, about.
const maxHookDeliveries = 1000

func hooksKey(tenant string) string       { return script.Key(tenant, "hooks") }
func hookLogKey(tenant, id string) string { return script.Key(tenant, "hooklog:"+id) }

// Hook is a hook as its tenant's record holds it.
type Hook struct {
	ID string `json:"-"`
	job.HookSettings
	Secrets []HookSecret `json:"secrets"` // the newest first
	Created time.Time    `json:"created_at"`

	stored string // what Redis has
}

// Stored is how many bytes Redis has of a hook that was read.
func (h Hook) Stored() int { return len(h.stored) }

// HookSecret is a secret of a hook, sealed.
type HookSecret struct {
	Key     string    `json:"key"` // id of what it is sealed to
	Data    []byte    `json:"data"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
}

// Good reports whether the secret verifies at that time.
func (s HookSecret) Good(now time.Time) bool { return s.Expires.IsZero() || now.Before(s.Expires) }

// errHookStale means that a hook has changed since it was read.
var errHookStale = errors.New("the hook has changed meanwhile")

// CreateHook stores a new hook. It fails with job.ErrTooManyHooks.
func (s *Store) CreateHook(ctx context.Context, tenant string, h Hook) error {
	h.stored = ""
	return s.setHook(ctx, tenant, h)
}

// ChangeHook changes a hook, with what change makes of it, and returns it. It fails with job.ErrNoHook or
// with what change fails with.
func (s *Store) ChangeHook(ctx context.Context, tenant, id string, change func(*Hook) error) (Hook, error) {
	for range 10 {
		h, err := s.Hook(ctx, tenant, id)
		if err != nil {
			return h, err
		}
		if err := change(&h); err != nil {
			return h, err
		}
		if err = s.setHook(ctx, tenant, h); !errors.Is(err, errHookStale) {
			return h, err
		}
	}
	return Hook{}, errHookStale
}

func (s *Store) setHook(ctx context.Context, tenant string, h Hook) error {
	b, err := job.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode hook: %w", err)
	}
	answer, err := setHookScript.Run(ctx, s.rdb, tenant, script.Args{"id": h.ID, "before": h.stored, "hook": b}).Text()
	switch {
	case err != nil:
		return fmt.Errorf("store hook: %w", err)
	case answer == "full":
		return job.ErrTooManyHooks
	case answer != "ok":
		return errHookStale
	}
	return nil
}

// Hook returns a hook, or job.ErrNoHook.
func (s *Store) Hook(ctx context.Context, tenant, id string) (Hook, error) {
	text, err := s.rdb.HGet(ctx, hooksKey(tenant), id).Result()
	if errors.Is(err, redis.Nil) {
		return Hook{}, job.ErrNoHook
	}
	if err != nil {
		return Hook{}, fmt.Errorf("read hook: %w", err)
	}
	return parseHook(id, text)
}

func parseHook(id, text string) (Hook, error) {
	h := Hook{ID: id, stored: text}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("read hook %s: %w", id, err)
	}
	return h, nil
}

// Hooks lists a tenant's hooks, the oldest first.
func (s *Store) Hooks(ctx context.Context, tenant string) ([]Hook, error) {
	all, err := s.rdb.HGetAll(ctx, hooksKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	list := make([]Hook, 0, len(all))
	for id, text := range all {
		h, err := parseHook(id, text)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b Hook) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// DeleteHook forgets a hook and its deliveries. It fails with job.ErrNoHook.
func (s *Store) DeleteHook(ctx context.Context, tenant, id string) error {
	n, err := deleteHookScript.Run(ctx, s.rdb, tenant, script.Args{"id": id}).Int()
	switch {
	case err != nil:
		return fmt.Errorf("delete hook: %w", err)
	case n == 0:
		return job.ErrNoHook
	}
	return nil
}

// Claimed is what became of a delivery to a hook before.
type Claimed struct {
	// Job that it started, or is to start.
	Job string
	// Done says that the job was created, be it still kept or not; Seen, that somebody claimed the
	// delivery before.
	Done, Seen bool
}

// ClaimDelivery gives a delivery with these names the job of that id, or finds which it has; without an id it only looks. It fails with
// a *job.Error beyond the tenant's quota.
func (s *Store) ClaimDelivery(ctx context.Context, tenant, hook, id string, names []string) (Claimed, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return Claimed{}, fmt.Errorf("claim delivery: %w", err)
	}
	most := s.mostRecorded(terms)
	answer, err := claimDeliveryScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "now": s.now(), "most_recorded": most}, hookKeys(hook, names)...).StringSlice()
	switch {
	case err != nil:
		return Claimed{}, fmt.Errorf("claim delivery: %w", err)
	case len(answer) != 2:
		return Claimed{}, overRecorded(most)
	}
	return Claimed{Job: answer[1], Done: answer[0] == "done", Seen: answer[0] != "new"}, nil
}

// SettleDelivery writes down what became of a delivery. started says that its job was created: from then on
// no other is for these names.
func (s *Store) SettleDelivery(ctx context.Context, tenant, hook string, d job.HookDelivery, started bool, names []string) error {
	b, err := job.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode delivery: %w", err)
	}
	err = settleDeliveryScript.Run(ctx, s.rdb, tenant, script.Args{"hook": hook, "id": d.Job + d.Run, "started": started, "delivery": b}, hookKeys(hook, names)...).Err()
	if err != nil {
		return fmt.Errorf("note delivery: %w", err)
	}
	return nil
}

// hookKeys are what a delivery's names are called in Redis, as they may hold anything.
func hookKeys(hook string, names []string) []any {
	keys := make([]any, len(names))
	for i, name := range names {
		keys[i] = hashKey(hook + "\n" + name)
	}
	return keys
}

// HookDeliveries lists deliveries to a hook, the newest first.
func (s *Store) HookDeliveries(ctx context.Context, tenant, id string, most int64) ([]job.HookDelivery, error) {
	entries, err := s.rdb.XRevRangeN(ctx, hookLogKey(tenant, id), "+", "-", most).Result()
	if err != nil {
		return nil, fmt.Errorf("list deliveries to hook: %w", err)
	}
	list := make([]job.HookDelivery, len(entries))
	for i, e := range entries {
		text, _ := e.Values["delivery"].(string)
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("read delivery %s to hook %s: %w", e.ID, id, err)
		}
	}
	return list, nil
}
