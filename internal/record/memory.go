package record

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// What a tenant's records take of Redis is counted from when they are written until they
// are forgotten, in the scripts that do it (docs/adr/0020-memory.md). A record counts so many bytes,
// whatever state it is in, and its text besides; TestMemoryIsCounted measures that a real
// Redis takes no more.
const (
	jobCost      = 3072
	callbackCost = 512 // a delivery that is done; its URL is text, there twice
	batchCost    = 1536
	itemCost     = 16 // a job's fingerprint in its batch
	faultCost    = 128
	uploadCost   = 512
	keyCost      = 768
	deliveryCost = 1024 // what a pending delivery takes besides: its outbox entry and task
)

// DefaultRecordBytes is the quota bytes_recorded of tenants whose terms name none.
const DefaultRecordBytes = 1 << 30

// textCost is what so many bytes of text take: Redis's allocator rounds up by a quarter at most.
func textCost(n int) int { return n + n/4 }

// memory is what scripts have in common that count what a tenant's records take. KEYS[1] is
// what all keys of the tenant begin with.
var memory = countBytes + fmt.Sprintf(`
local call, t = redis.call, KEYS[1]
local recorded, lasting = t .. 'recorded', t .. 'lasting'
local item_cost, fault_cost, upload_cost, key_cost, expired_delay = %d, %d, %d, %d, %d
local function text_cost(n) return n + math.floor(n / 4) end

-- forget_keys stops counting keys that have expired, more in a call than one call adds, and says how many last.
local function forget_keys(now)
  local n = call('ZCARD', lasting)
  if n == 0 then return 0 end
  local gone = call('ZRANGE', lasting, '-inf', now, 'BYSCORE', 'LIMIT', 0, 200)
  if #gone > 0 then call('ZREM', lasting, unpack(gone)) end
  return n - #gone
end

-- in_redis is what counts now. Keys and pending deliveries are counted by their number: keys is theirs, where it is known.
local function in_redis(keys)
  return sum(recorded) + (keys or call('ZCARD', lasting)) * key_cost + call('ZCARD', t .. 'outbox') * %d
end

local function charge(bytes)
  if bytes ~= 0 then count(recorded, bytes) end
end

-- remember keeps an idempotency key, whatever becomes of what it began. It is counted until its time is over.
local function remember(key, value, now, life)
  call('SET', key, value, 'PX', life)
  call('ZADD', lasting, now + life, key)
  call('PEXPIRE', lasting, life) -- every key lives as long: with the last one all are over
end
`, itemCost, faultCost, uploadCost, keyCost, expiredDelay.Milliseconds(), deliveryCost)

// jobMemory is what a new job counts: its spec, if the record holds it, and what of it is a field besides.
func jobMemory(spec job.Spec, inline, metadata []byte) int {
	n := jobCost + textCost(len(inline)) + textCost(len(metadata)) + textCost(len(spec.Image))
	if spec.Callback != nil {
		n += callbackCost + 2*textCost(len(spec.Callback.URL))
	}
	return n
}

// mostRecorded is the quota bytes_recorded of a tenant with these terms.
func (s *Store) mostRecorded(t job.Terms) int64 {
	if t.Quotas.BytesRecorded > 0 {
		return t.Quotas.BytesRecorded
	}
	return s.recordBytes
}

// countRecorded asks what the tenant's records take. The number is there once the
// pipeline was executed.
func (s *Store) countRecorded(ctx context.Context, pipe redis.Pipeliner, tenant string) func() (int64, error) {
	bytes := pipe.Get(ctx, recordedKey(tenant))
	keys, deliveries := pipe.ZCard(ctx, lastingKey(tenant)), pipe.ZCard(ctx, outboxKey(tenant))
	return func() (int64, error) {
		n, err := s.sum(bytes)
		if err != nil {
			return 0, fmt.Errorf("read bytes recorded of tenant %s: %w", tenant, err)
		}
		return n + keys.Val()*keyCost + deliveries.Val()*deliveryCost, nil
	}
}

// overRecorded is what is said to a tenant whose records take as much as they may.
func overRecorded(most int64) error {
	return &job.Error{
		Code: job.CodeQuotaExceeded,
		Message: "the tenant's quota bytes_recorded (" + strconv.FormatInt(most, 10) +
			") has no room for another record: purge jobs, or wait until some are no longer kept",
	}
}
