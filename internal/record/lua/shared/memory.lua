-- What a tenant's records take of Redis (docs/adr/0020-memory.md).
-- @include bytes
-- @const key_cost       what an idempotency key takes of Redis, bytes
-- @const delivery_cost  what a pending delivery takes besides its record, bytes: outbox entry and task

local recorded, lasting = t .. 'recorded', t .. 'lasting'

-- text_cost is what n bytes of text take.
local function text_cost(n) return n + math.floor(n / 4) end

-- forget_keys stops counting keys that have expired, more in a call than one call adds, and answers how many last.
local function forget_keys(now)
  local n = call('ZCARD', lasting)
  if n == 0 then return 0 end
  local gone = call('ZRANGE', lasting, '-inf', now, 'BYSCORE', 'LIMIT', 0, 200)
  if #gone > 0 then call('ZREM', lasting, unpack(gone)) end
  return n - #gone
end

-- in_redis is how many bytes count now. keys is how many idempotency keys last, where the caller knows it.
local function in_redis(keys)
  return sum(recorded) + (keys or call('ZCARD', lasting)) * key_cost + call('ZCARD', t .. 'outbox') * delivery_cost
end

local function charge(bytes)
  if bytes ~= 0 then count(recorded, bytes) end
end

-- remember keeps an idempotency key, whatever becomes of what it began. The key counts until its time is over.
local function remember(key, value, now, life)
  call('SET', key, value, 'PX', life)
  call('ZADD', lasting, now + life, key)
  if call('PTTL', lasting) < tonumber(life) then call('PEXPIRE', lasting, life) end -- with the last key all are over
end
