package record

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// sweepListed takes jobs out of their tenants' lists whose records have expired, where forget
// did not: it finds their place by what is kept of them, which a worker may spoil.
func (w *Sweeper) sweepListed(ctx context.Context, tenants ...string) error {
	var errs []error
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		firsts, err := redisconn.Ask(ctx, w.Records.rdb, some, func(pipe redis.Pipeliner, tenant string) *redis.StringSliceCmd {
			return pipe.ZRangeArgs(ctx, redis.ZRangeArgs{Key: jobsKey(tenant), ByLex: true, Start: "-", Stop: w.expired(), Count: 1})
		})
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("look for what has expired: %w", err))...)
		}
		for i, tenant := range some {
			if len(firsts[i].Val()) > 0 || firsts[i].Err() != nil {
				errs = append(errs, w.forgetExpired(ctx, tenant))
			}
		}
	}
	return errors.Join(errs...)
}

// expired is what all entries of a list come before that are older than the retention can have.
func (w *Sweeper) expired() string {
	return "(" + string(position(w.Records.now().Add(-w.Records.retention), ""))
}

func (w *Sweeper) forgetExpired(ctx context.Context, tenant string) error {
	rdb, list := w.Records.rdb, jobsKey(tenant)
	least, most := "-", w.expired()
	for {
		entries, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: list, ByLex: true, Start: least, Stop: most, Count: page}).Result()
		if err != nil {
			return fmt.Errorf("list what has expired in %s: %w", list, err)
		}
		if len(entries) == 0 {
			return nil
		}
		pipe := rdb.Pipeline()
		exist := make([]*redis.IntCmd, len(entries))
		for i, e := range entries {
			exist[i] = pipe.Exists(ctx, jobKey(tenant, Position(e).id()))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("look at what has expired in %s: %w", list, err)
		}
		var gone []any
		for i, e := range entries {
			least = "(" + e
			if exist[i].Val() == 0 {
				gone = append(gone, e)
			}
		}
		if len(gone) > 0 {
			if err := rdb.ZRem(ctx, list, gone...).Err(); err != nil {
				return fmt.Errorf("take what has expired out of %s: %w", list, err)
			}
		}
	}
}
