-- What Redis holds for a short time only: events, and results that the bucket also has.
-- @include bytes
-- @const lend_cost  what a result or a stream takes besides its text, bytes

local lent, lent_bytes, lent_sum = t .. 'lent', t .. 'lent:bytes', t .. 'lent:sum'

local function take_back(name)
  call('ZREM', lent, name)
  local bytes = call('HGET', lent_bytes, name)
  if not bytes then return end
  call('HDEL', lent_bytes, name)
  count(lent_sum, -(tonumber(bytes) or 0))
end

-- make_room takes back what has expired, and what expires next while the tenant has more than most bytes lent. A worker
-- writes these names, and the api runs this: of names that the api alone could delete, only the entry goes.
local function make_room(now, most)
  for _ = 1, 1000 do
    local name, expires = unpack(call('ZRANGE', lent, 0, 0, 'WITHSCORES'))
    if not name or tonumber(expires) > tonumber(now) and sum(lent_sum) <= tonumber(most) then return end
    if string.find(name, '^result:') or string.find(name, '^events:') then call('DEL', t .. name) end
    take_back(name)
  end
end

-- lend counts a key of the tenant, of so many bytes, until it expires.
local function lend(name, bytes, expires, now, most)
  bytes = bytes + lend_cost
  local more = bytes - (tonumber(call('HGET', lent_bytes, name) or 0) or 0)
  call('ZADD', lent, expires, name)
  call('HSET', lent_bytes, name, string.format('%.0f', bytes))
  count(lent_sum, more)
  make_room(now, most)
end
