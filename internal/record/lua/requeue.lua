-- requeue takes a job from its worker and gives it back to the queue, in a new epoch. An attempt is spent, or given back where
-- the worker shuts down, and for a day where it lacks something (docs/adr/0004-outages.md).
-- @include queue
-- @include stream
-- @const outage_patience  how long outages cost a job nothing, ms
-- @arg id                of the job
-- @arg epoch             that ends
-- @arg worker            id of the worker
-- @arg now               ms
-- @arg due               when the sweeper looks for the job's task, ms
-- @arg cost              attempt, nothing, or outage
-- @number most_attempts  how many attempts a job has
-- @answer ok, epoch, priority, placement  the job is queued in that epoch
-- @answer stale      the job is in another epoch, or another worker's
-- @answer canceled   it was asked to stop: the caller ends it
-- @answer exhausted  no attempt is left: the caller ends it

local state, held_epoch, held_by, cancel, attempts, priority, pool = unpack(call('HMGET', job(id),
  'state', 'epoch', 'worker', 'cancel', 'attempts', 'priority', 'placement'))
if state ~= 'running' or held_epoch ~= epoch or held_by ~= worker then
  if call('HGET', running, id) == epoch .. ' ' .. worker then call('HDEL', running, id) end
  return {'stale'}
end
if cancel then return {'canceled'} end
if cost == 'outage' then
  call('HSETNX', job(id), 'outage', now) -- start deletes it where the last one is long ago
  call('HSET', job(id), 'outage_last', now)
  if now - call('HGET', job(id), 'outage') > outage_patience then cost = 'attempt' end
end
if cost == 'attempt' and tonumber(attempts) >= most_attempts then return {'exhausted'} end
if cost ~= 'attempt' then call('HINCRBY', job(id), 'attempts', -1) end
local into = call('HINCRBY', job(id), 'epoch', 1)
call('HSET', job(id), 'state', 'queued')
call('HDEL', job(id), 'worker', 'started')
call('HDEL', running, id)
call('ZADD', open, due, id) -- not the backlog: the job keeps its place in the window
count(queued, tonumber(call('HGET', job(id), 'bytes') or 0) or 0)
local events = t .. 'events:' .. id
local last = stream_end(events)
if last then -- somebody watches
  append_event(events, 'status', into, 0, 0, last.total, '{"status":"queued","attempt":' .. call('HGET', job(id), 'attempts') .. '}')
  call('PUBLISH', 'gb:events:' .. id, '')
end
call('PUBLISH', 'gb:cancel', id) -- should the worker live after all, it stops
return {'ok', into, priority, pool or ''}
