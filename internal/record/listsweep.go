package record

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// sweepListed takes jobs out of the tenant's list whose records have expired, where forget did
// not: it knows none that an older version ended. Only those that are older than the
// retention can have.
func (w *Sweeper) sweepListed(ctx context.Context, tenant string) error {
	rdb, list := w.Records.rdb, jobsKey(tenant)
	least, most := "-", "("+string(position(w.Records.now().Add(-w.Records.retention), ""))
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
