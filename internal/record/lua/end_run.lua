-- end_run ends a run all of whose steps have ended: its status, its outputs and its delivery are one step.
-- @include memory
-- @include delivery
-- @include run
-- @const expired_delay  how long after a record expires its objects and counts go, ms
-- @arg id       of the run
-- @arg now      ms
-- @arg rev      of its items, as the caller has read them
-- @arg status   succeeded, failed or canceled
-- @arg outputs  JSON
-- @arg note     what else is to be said of its end, or ''
-- @answer ok DELIVERY  it has ended; what tell answered
-- @answer stale        something has changed meanwhile
-- @answer ended        it has ended before
-- @answer missing      there is no such run

local state, created, retention, callback, delivery, message, charged = unpack(call('HMGET', run_key(id),
  'state', 'created', 'retention', 'callback', 'delivery', 'message', 'charge'))
if not state then
  call('ZREM', runwork, id)
  return 'missing'
end
if state ~= 'running' then
  call('ZREM', runwork, id)
  return 'ended'
end
if items_rev(id) ~= rev then return 'stale' end
local bytes = text_cost(#outputs + #note)
charge(bytes)
call('HSET', run_key(id), 'state', status, 'finished', now, 'outputs', outputs, 'note', note)
call('HSET', run_items(id), 'over', 1)
call('ZREM', runwork, id)
local made = tell('pipeline.completed', callback, delivery, message, now, 'run', id)
call('PEXPIRE', run_key(id), retention)
call('PEXPIRE', run_items(id), retention)
call('HSET', t .. 'kept', id, '0 ' .. created .. ' ' .. (charged + bytes))
call('ZADD', t .. 'garbage', now + retention + expired_delay, id)
call('PUBLISH', 'gb:done', id)
return 'ok ' .. made
