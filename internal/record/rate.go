package record

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// RateWindow is the time that a quota of requests is for.
const RateWindow = time.Minute

// Rate is what one request left of its tenant's quota.
type Rate struct {
	// Wait until such a request would be admitted; 0 for one that is.
	Wait time.Duration
	// Remaining requests that would be admitted at once.
	Remaining int64
	// Reset is when the whole quota is there again, if nothing more is asked.
	Reset time.Duration
}

// TakeRequest takes one request from the tenant's quota, which all processes share. One
// that is not admitted takes nothing.
func (s *Store) TakeRequest(ctx context.Context, tenant string, perMinute int64) (Rate, error) {
	answer, err := takeScript.Run(ctx, s.rdb, []string{rateKey(tenant)}, perMinute, RateWindow.Microseconds()).Int64Slice()
	if err != nil {
		return Rate{}, fmt.Errorf("take request from quota: %w", err)
	}
	return Rate{time.Duration(answer[0]) * time.Microsecond, answer[1], time.Duration(answer[2]) * time.Microsecond}, nil
}

// GCRA: the key says when the quota is whole again, which each request puts off by its
// share of the window. The clock is Redis's, as hosts' clocks differ by more than that.
var takeScript = redis.NewScript(`
-- KEYS: rate   ARGV: requests a window, window in µs
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local quota = tonumber(ARGV[1])
local share = math.ceil(tonumber(ARGV[2]) / quota)
local whole = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0)) + share
local room = now + share * quota - whole
if room < 0 then return {-room, 0, whole - share - now} end
redis.call('SET', KEYS[1], string.format('%.0f', whole), 'PX', math.ceil((whole - now) / 1000))
return {0, math.floor(room / share), whole - now}`)
