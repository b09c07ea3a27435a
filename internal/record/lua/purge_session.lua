-- purge_session deletes the record of a session that has ended, whose executions have ended, too. What it took of its tenant's
-- quotas is given back as that of an expired one is, at once.
-- @include session
-- @arg id   of the session
-- @arg now  ms
-- @answer ok       it is gone
-- @answer missing  there is no such session
-- @answer kept     it has not ended, or an execution of it has not

local state, created = unpack(call('HMGET', session_key(id), 'state', 'created'))
if not state then return 'missing' end
if state ~= 'ended' or call('ZSCORE', sessionwork, id) then return 'kept' end
call('DEL', session_key(id), turns_key(id))
call('ZREM', t .. 'sessions', (created or '') .. ':' .. id)
call('ZADD', t .. 'garbage', now, id)
return 'ok'
