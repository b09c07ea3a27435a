-- purge_session deletes the record of a session that has ended, whose executions have ended, too, and the deliveries of its end, even pending ones. What it took of its tenant's
-- quotas is given back as that of an expired one is, at once.
-- @include session
-- @include lane
-- @arg id   of the session
-- @arg now  ms
-- @rest first  ids of deliveries that it may have
-- @answer ok, released  it is gone; id, attempt, waits, backlog and when of each delivery that has the place of one that is gone
-- @answer missing  there is no such session
-- @answer kept     it has not ended, or an execution of it has not

local state, created = unpack(call('HMGET', session_key(id), 'state', 'created'))
if not state then return {'missing'} end
if state ~= 'ended' or call('ZSCORE', sessionwork, id) then return {'kept'} end
call('DEL', session_key(id), turns_key(id))
local released = drop_deliveries(first, now)
call('ZREM', t .. 'sessions', (created or '') .. ':' .. id)
call('ZADD', t .. 'garbage', now, id)
return {'ok', released}
