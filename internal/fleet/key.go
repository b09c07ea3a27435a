package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/glovebox-run/glovebox/attest"
)

// keyMargin is how much longer a retired key is listed than the last result that it
// may have signed: a worker publishes its own once a minute.
const keyMargin = time.Hour

// listedKey is a key with when the last result is gone that it may have signed. Records
// keep the retention that they were made with, so a shorter one of today makes it no earlier.
type listedKey struct {
	attest.Key
	Until int64 `json:"until"` // ms
}

// PublishKey says that a worker signs results with this key. Workers that share one
// publish the same. Keys that no result is left of, and what is no key, are forgotten.
func (f *Fleet) PublishKey(ctx context.Context, k attest.Key) error {
	all, expired, err := f.allKeys(ctx)
	if err != nil {
		return fmt.Errorf("publish key: %w", err)
	}
	now := f.now().UTC().Truncate(time.Millisecond)
	k.NotBefore, k.SeenAt = now, now
	until := now.Add(f.retention + keyMargin).UnixMilli()
	for _, old := range all {
		switch {
		case old.ID == k.ID:
			k.NotBefore, until = old.NotBefore, max(old.Until, until)
		case f.keyExpired(old):
			expired = append(expired, old.ID)
		}
	}
	b, err := json.Marshal(listedKey{k, until})
	if err != nil {
		return fmt.Errorf("publish key: %w", err)
	}
	err = f.publish(ctx, keysKey, k.ID, b)
	if err == nil && len(expired) > 0 {
		err = f.rdb.HDel(ctx, keysKey, expired...).Err()
	}
	if err != nil {
		return fmt.Errorf("publish key: %w", err)
	}
	return nil
}

// Keys lists the keys that workers sign with, and those that they did as long as there
// may be records of what they signed; the newest first.
func (f *Fleet) Keys(ctx context.Context) ([]attest.Key, error) {
	all, _, err := f.allKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	list := make([]attest.Key, 0, len(all))
	for _, k := range all {
		if !f.keyExpired(k) {
			list = append(list, k.Key)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		if !list[i].NotBefore.Equal(list[j].NotBefore) {
			return list[i].NotBefore.After(list[j].NotBefore)
		}
		return list[i].ID < list[j].ID
	})
	return list, nil
}

func (f *Fleet) keyExpired(k listedKey) bool {
	return f.now().UnixMilli() > k.Until
}

// allKeys reads what was published. none are the fields that are no keys: who verifies would refuse
// the whole list for one of them.
func (f *Fleet) allKeys(ctx context.Context) (list []listedKey, none []string, err error) {
	fields, err := f.published(ctx, keysKey)
	if err != nil {
		return nil, nil, err
	}
	for id, b := range fields {
		var k listedKey
		err := json.Unmarshal([]byte(b), &k)
		if err != nil || k.ID != id || attest.KeyID(k.PublicKey) != id {
			f.unreadable.PassOver(keysKey, fmt.Errorf("key %.100q is called %.100q: %w", id, k.ID, err))
			none = append(none, id)
			continue
		}
		list = append(list, k)
	}
	return list, none, nil
}
