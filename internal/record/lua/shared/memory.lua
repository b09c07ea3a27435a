-- What a tenant's records take of Redis (docs/adr/0020-memory.md).
-- @include bytes
-- @const key_cost       what an idempotency key takes of Redis, bytes
-- @const delivery_cost  what a pending delivery takes besides its record, bytes: outbox entry and task
-- @const endpoint_delivery_cost  what a delivery to an endpoint takes, bytes
-- @const delivery_check  when a delivery is looked at again that counts and whose time is over, ms
-- @const key_life       how long an idempotency key is kept, ms

local recorded, lasting, lasting_deliveries = t .. 'recorded', t .. 'lasting', t .. 'lasting:deliveries'

-- text_cost is what n bytes of text take.
local function text_cost(n) return n + math.floor(n / 4) end

-- count_until has a member of a set count until then. The set is there until all are over, and for as much longer.
local function count_until(set, member, now, over, longer)
  call('ZADD', set, string.format('%.0f', over), member)
  local life = math.max(over - now, 1) + longer
  if call('PTTL', set) < life then call('PEXPIRE', set, string.format('%.0f', life)) end
end

-- count_delivery has a delivery to an endpoint count as long as it is there, which is until it expires, or longer where it is pending then.
local function count_delivery(id, now, expires)
  count_until(lasting_deliveries, id, now, math.max(tonumber(expires) or 0, now + delivery_check), key_life)
end

-- forget_deliveries stops counting deliveries that are gone, and answers how many count.
local function forget_deliveries(now)
  local n = call('ZCARD', lasting_deliveries)
  if n == 0 then return 0 end
  for _, id in ipairs(call('ZRANGE', lasting_deliveries, '-inf', now, 'BYSCORE', 'LIMIT', 0, 200)) do
    local life = call('PTTL', t .. 'delivery:' .. id)
    if life == -2 then
      call('ZREM', lasting_deliveries, id)
      n = n - 1
    else
      count_delivery(id, now, now + life) -- one that is pending has none
    end
  end
  return n
end

-- forget_keys stops counting keys and deliveries that have expired, more in a call than one call adds, and answers how many bytes count for those that last.
local function forget_keys(now)
  local bytes, n = forget_deliveries(now) * endpoint_delivery_cost, call('ZCARD', lasting)
  if n == 0 then return bytes end
  local gone = call('ZRANGE', lasting, '-inf', now, 'BYSCORE', 'LIMIT', 0, 200)
  if #gone > 0 then call('ZREM', lasting, unpack(gone)) end
  return bytes + (n - #gone) * key_cost
end

-- in_redis is how many bytes count now. lasts is how many do for keys and deliveries that last, where the caller knows it.
local function in_redis(lasts)
  lasts = lasts or call('ZCARD', lasting) * key_cost + call('ZCARD', lasting_deliveries) * endpoint_delivery_cost
  return sum(recorded) + lasts + call('ZCARD', t .. 'outbox') * delivery_cost
end

local function charge(bytes)
  if bytes ~= 0 then count(recorded, bytes) end
end

-- remember keeps an idempotency key, whatever becomes of what it began. The key counts until its time is over.
local function remember(key, value, now, life)
  call('SET', key, value, 'PX', life)
  count_until(lasting, key, now, now + life, 0)
end
