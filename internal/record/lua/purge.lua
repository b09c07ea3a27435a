-- purge deletes a job that has ended: record, result, events, and its deliveries, even pending ones. What says which
-- objects are to be deleted stays, and is due at once.
-- @include memory
-- @include lending
-- @include lane
-- @include run
-- @arg id        of the job
-- @arg now       ms
-- @rest first    ids of deliveries that it may have
-- @answer ok, released  it is gone; id, attempt, waits, backlog and when of each delivery that has the place of one that is gone
-- @answer missing       there is no such job
-- @answer kept          it has not ended
-- @answer run           it is a job of a run that has not ended, whose later steps may read what it left

local state, created, run = unpack(call('HMGET', t .. 'job:' .. id, 'state', 'created', 'run'))
if not state then return {'missing'} end
if state == 'held' or state == 'queued' or state == 'running' then return {'kept'} end
if run and call('HGET', run_key(run), 'state') == 'running' then return {'run'} end
call('DEL', t .. 'job:' .. id, t .. 'result:' .. id, t .. 'events:' .. id)
take_back('result:' .. id)
take_back('events:' .. id)
local released = drop_deliveries(first, now)
call('ZREM', t .. 'jobs', created .. ':' .. id)
call('ZADD', t .. 'garbage', now, id)
return {'ok', released}
