package record

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// gradedEntries are entries of what a problem graded, as [Store.entries] says. Several may have one time, so what is of the position's own
// time is read again, and those that were before it are left out.
func (s *Store) gradedEntries(ctx context.Context, key string, after Position, count int) ([]string, error) {
	most := "+inf"
	if after != "" {
		most = string(after)[:millisDigits]
	}
	var entries []string
	for offset := 0; len(entries) < count; offset += count {
		page, err := s.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: key, ByScore: true, Rev: true, Start: most, Stop: "-inf", Offset: int64(offset), Count: int64(count),
		}).Result()
		if err != nil {
			return nil, err
		}
		for _, z := range page {
			entry := fmt.Sprintf("%0*d:%v", millisDigits, int64(z.Score), z.Member)
			if (after == "" || entry < string(after)) && len(entries) < count {
				entries = append(entries, entry)
			}
		}
		if len(page) < count {
			break
		}
	}
	return entries, nil
}
