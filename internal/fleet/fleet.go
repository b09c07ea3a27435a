// Package fleet is what workers say of themselves in Redis: that they live, how many jobs they run
// at once, and which runtimes, images and keys they have. Any worker may write it, so what can't be
// read is passed over. Start at [Fleet].
package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// Fleet is all workers of a deployment. Safe for concurrent use.
type Fleet struct {
	rdb        *redis.Client
	retention  time.Duration
	unreadable redisconn.Unreadable
	now        func() time.Time
	recent     recentRuntimes
	pools      usedPools
}

// New returns the workers that say what they are in that Redis. Keys are listed as long as there may
// be results that they signed, which are kept for retention. now says what the time is.
func New(rdb *redis.Client, retention time.Duration, now func() time.Time, log *slog.Logger) *Fleet {
	return &Fleet{rdb: rdb, retention: retention, now: now, unreadable: redisconn.Unreadable{Log: log}}
}

const (
	slotsKey       = "gb:slots"
	slotsTotalKey  = "gb:slots:total"
	runtimesKey    = "gb:runtimes"
	imagesKey      = "gb:images"
	keysKey        = "gb:keys"
	secretsKeysKey = "gb:secretkeys"
)

func workerKey(worker string) string { return "gb:worker:" + worker }

// publish writes into a hash in which all workers say something, in the place of what is no hash.
func (f *Fleet) publish(ctx context.Context, key string, fields ...any) error {
	err := f.rdb.HSet(ctx, key, fields...).Err()
	if redisconn.WrongType(err) {
		if err = f.rdb.Del(ctx, key).Err(); err == nil {
			err = f.rdb.HSet(ctx, key, fields...).Err()
		}
	}
	return err
}

// published reads such a hash.
func (f *Fleet) published(ctx context.Context, key string) (map[string]string, error) {
	all, err := f.rdb.HGetAll(ctx, key).Result()
	if redisconn.WrongType(err) {
		f.unreadable.PassOver(key, err)
		return nil, nil
	}
	return all, err
}

// mostAhead is how far the clock of a worker's host may be ahead of ours. What says that it was seen
// later would count longer than it may, and be the newest for ever.
const mostAhead = time.Hour

// seen reports whether that may be when a worker said something.
func (f *Fleet) seen(at time.Time) bool { return at.Sub(f.now()) < mostAhead }
