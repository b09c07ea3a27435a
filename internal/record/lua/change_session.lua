-- change_session changes how long a session lives, how long it may be idle, and its metadata. What is not to change stays. Once its worker has
-- seen that its time is over, or that it was idle for too long, nobody can give it more.
-- @include session
-- @arg id               of the session
-- @number now           ms
-- @arg ttl              how much longer it lives, from now, ms, or ''
-- @number most_ttl      how long a session lives at most, from its begin, ms
-- @arg idle             how long it may be idle, seconds, or ''
-- @arg metadata         JSON, or ''
-- @number most_recorded quota bytes_recorded
-- @answer ok              it is done
-- @answer ttl SECONDS     it can live no more than so many seconds from now
-- @answer idle SECONDS    it may be idle for no more than these, as it lives no longer
-- @answer missing         there is no such session
-- @answer ended           it has ended, or is about to
-- @answer bytes_recorded  the quota is full

local state, over, created, expires, idle_was, metadata_was, until_most = unpack(call('HMGET', session_key(id), 'state', 'over', 'created', 'expires', 'idle', 'metadata', 'until_most'))
if not state then return 'missing' end
expires = tonumber(expires)
if state == 'ended' or over or now >= expires then return 'ended' end
if ttl ~= '' then
  local most = math.min(created + most_ttl, tonumber(until_most) or math.huge) - now
  if tonumber(ttl) > most then return 'ttl ' .. math.max(math.floor(most / 1000), 0) end
  expires = now + ttl
end
local lives = math.ceil((expires - created) / 1000)
if idle ~= '' and tonumber(idle) > lives then return 'idle ' .. lives end
local more = metadata ~= '' and text_cost(#metadata) - text_cost(#(metadata_was or '')) or 0
if more > 0 and in_redis(forget_keys(now)) + more > most_recorded then return 'bytes_recorded' end
call('HSET', session_key(id), 'expires', string.format('%.0f', expires), 'idle', math.min(idle ~= '' and idle or idle_of(id, idle_was), lives))
if metadata ~= '' then
  call('HSET', session_key(id), 'metadata', metadata)
  call('HINCRBY', session_key(id), 'charge', more)
  charge(more)
end
local held_by = call('HGET', session_key(id), 'worker')
if held_by then call('PUBLISH', 'gb:turn:' .. held_by, id) end
return 'ok'
