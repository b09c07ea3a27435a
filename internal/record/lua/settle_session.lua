-- settle_session lists the executions of an ended session that have not ended. Once there is none, its record has so long to
-- live, and it no longer counts against the quota.
-- @include session
-- @const expired_delay  how long after a record expires its objects and counts go, ms
-- @arg id                of the session
-- @arg now               ms
-- @number default_retention  how long a session is kept whose record doesn't say, ms
-- @answer ids  of the executions, the one that ran first

local current, created, charged, retention = unpack(call('HMGET', session_key(id), 'turn', 'created', 'charge', 'retention'))
local ids, left = call('LRANGE', turns_key(id), 0, -1), {}
if current then table.insert(ids, 1, current) end
for _, turn in ipairs(ids) do
  local state = call('HGET', job(turn), 'state')
  if state == 'held' or state == 'queued' or state == 'running' then left[#left + 1] = turn end
end
if current and left[1] ~= current then call('PUBLISH', 'gb:cancel', current) end -- should a worker run it still, it stops
if #left > 0 or call('ZREM', sessionwork, id) == 0 then return left end
retention = tonumber(retention) or default_retention
call('DEL', turns_key(id))
call('HDEL', session_key(id), 'turn')
call('PEXPIRE', session_key(id), retention)
call('HSET', t .. 'kept', id, '0 ' .. (created or now) .. ' ' .. (charged or 0))
call('ZADD', t .. 'garbage', now + retention + expired_delay, id)
return left
