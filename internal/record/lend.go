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
  local bytes = call('HGET', lent_bytes, name)
  if not bytes then return end
  call('ZREM', lent, name)
  call('HDEL', lent_bytes, name)
  if call('DECRBY', lent_sum, bytes) <= 0 then call('DEL', lent_sum) end
end

-- make_room takes back what has expired, and as much before its time as is too much.
local function make_room(now, most)
  for _ = 1, 1000 do
    local first = call('ZRANGE', lent, 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) > tonumber(now) and tonumber(call('GET', lent_sum) or 0) <= tonumber(most) then return end
    call('DEL', t .. first[1])
    take_back(first[1])
  end
end

-- lend counts a key of the tenant, of so many bytes, that expires at that time.
local function lend(name, bytes, expires, now, most)
  bytes = bytes + %d
  local more = bytes - tonumber(call('HGET', lent_bytes, name) or 0)
  call('ZADD', lent, expires, name)
  call('HSET', lent_bytes, name, string.format('%%.0f', bytes))
  call('INCRBY', lent_sum, string.format('%%.0f', more))
  make_room(now, most)
end
`, lendCost)
