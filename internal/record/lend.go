package record

import "fmt"

const (
	// lendMost is how many bytes of Redis results that are in the bucket, too, and events take
	// of one tenant: what has the shortest time left goes first.
	lendMost = 128 << 20
	// lendCost is what one of them takes besides.
	lendCost = 512
)

// lending is what scripts have in common, behind memory, that count what is in Redis for a
// while only, and that nobody misses for long: results that are in the bucket, and events.
var lending = fmt.Sprintf(`
local lent, lent_bytes, lent_sum = t .. 'lent', t .. 'lent:bytes', t .. 'lent:sum'

local function take_back(name)
  call('ZREM', lent, name)
  local bytes = call('HGET', lent_bytes, name)
  if not bytes then return end
  call('HDEL', lent_bytes, name)
  count(lent_sum, -(tonumber(bytes) or 0))
end

-- make_room takes back what has expired, and as much before its time as is too much. A worker writes these names, and the api
-- runs this: what else they may name, which the api could delete, is only taken out.
local function make_room(now, most)
  for _ = 1, 1000 do
    local first = call('ZRANGE', lent, 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) > tonumber(now) and sum(lent_sum) <= tonumber(most) then return end
    if string.find(first[1], '^result:') or string.find(first[1], '^events:') then call('DEL', t .. first[1]) end
    take_back(first[1])
  end
end

-- lend counts a key of the tenant, of so many bytes, that expires at that time.
local function lend(name, bytes, expires, now, most)
  bytes = bytes + %d
  local more = bytes - (tonumber(call('HGET', lent_bytes, name) or 0) or 0)
  call('ZADD', lent, expires, name)
  call('HSET', lent_bytes, name, string.format('%%.0f', bytes))
  count(lent_sum, more)
  make_room(now, most)
end
`, lendCost)
