-- unoffered takes a job that no living worker offers the runtime or image of out of its tenant's window, and releases the
-- next. The job comes back after as long as it has waited so far (docs/adr/0021-offers.md).
-- @include queue
-- @const least_unoffered     shortest time until a job that no worker offers comes back, ms
-- @const most_unoffered      longest time until it comes back, ms
-- @const unoffered_patience  how long a job that no worker offers waits in all, ms
-- @const unoffered_gap       longest time between two looks for a worker that belong to the same wait, ms
-- @arg id      of the job
-- @arg epoch   of the task
-- @number now  ms
-- @arg window  how many jobs of the tenant may be released or running
-- @arg due     when the sweeper looks for the task of the job that is released here, ms
-- @answer ok, released  id, epoch and priority of the job that is released
-- @answer stale         the job is in another epoch, or not queued
-- @answer exhausted     it has waited for too long: the caller ends it

local state, held_epoch, pool, since, last = unpack(call('HMGET', job(id), 'state', 'epoch', 'placement', 'unoffered', 'unoffered_last'))
if state ~= 'queued' or held_epoch ~= epoch then return {'stale'} end
since, last = tonumber(since or nil), tonumber(last or nil)
if not since or not last or now - last > unoffered_gap then since = now end
call('HSET', job(id), 'unoffered', since, 'unoffered_last', now)
local waited = now - since
if waited > unoffered_patience then return {'exhausted'} end
if call('ZREM', open, id) == 1 then
  if pool then call('SREM', placed(pool), id) end
  call('HINCRBY', job(id), 'epoch', 1) -- a task that it was handed over with is not to start it out of its window
  call('ZADD', later, now + math.min(math.max(waited, least_unoffered), most_unoffered), id)
end
return {'ok', release(window, now, due, 1)}
