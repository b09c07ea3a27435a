-- purge deletes a job that has ended: record, result, events, and its delivery, even one that is pending. What says which
-- objects are to be deleted stays, and is due at once.
-- @include memory
-- @include lending
-- @arg id        of the job
-- @arg delivery  id of its delivery, should it have one
-- @arg now       ms
-- @answer ok       it is gone
-- @answer missing  there is no such job
-- @answer kept     it has not ended

local state, created = unpack(call('HMGET', t .. 'job:' .. id, 'state', 'created'))
if not state then return 'missing' end
if state == 'queued' or state == 'running' then return 'kept' end
call('DEL', t .. 'job:' .. id, t .. 'result:' .. id, t .. 'events:' .. id, t .. 'delivery:' .. delivery)
take_back('result:' .. id)
take_back('events:' .. id)
call('ZREM', t .. 'outbox', delivery)
call('ZREM', t .. 'jobs', created .. ':' .. id)
call('ZADD', t .. 'garbage', now, id)
return 'ok'
