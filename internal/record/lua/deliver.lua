-- deliver records what an attempt at a delivery came to.
-- @arg id         of the delivery
-- @arg attempt    its number
-- @arg now        ms
-- @arg state      pending, delivered, failed or gone
-- @arg due        when the next attempt is due, of one that is pending, ms
-- @arg status     the HTTP status of the answer, or 0
-- @arg problem    why the attempt failed, or ''
-- @arg retention  how long one that is done is kept if its record has no time for that, as a batch's has none, ms
-- @answer ok       it is recorded
-- @answer missing  there is no such delivery
-- @answer stale    the attempt was recorded before

local delivery, outbox = t .. 'delivery:' .. id, t .. 'outbox'
local held_state, held_attempt, expires = unpack(call('HMGET', delivery, 'state', 'attempt', 'expires'))
if not held_state then
  call('ZREM', outbox, id)
  return 'missing'
end
if held_state ~= 'pending' or held_attempt ~= attempt then return 'stale' end
call('HSET', delivery, 'state', state, 'sent', now, 'status', status, 'error', problem)
if state == 'pending' then
  call('HINCRBY', delivery, 'attempt', 1)
  call('HSET', delivery, 'due', due)
  call('ZADD', outbox, due, id)
else
  call('ZREM', outbox, id)
  if expires then call('PEXPIREAT', delivery, expires) else call('PEXPIRE', delivery, retention) end
end
return 'ok'
