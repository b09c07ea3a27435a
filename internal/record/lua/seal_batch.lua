-- seal_batch says how many jobs a batch has, all of which were sent, and ends it if they have all ended.
-- @include batch
-- @arg id        of the batch
-- @arg now       ms
-- @number total  how many jobs were sent
-- @answer ok DELIVERY  it is sealed; what tell answered, if it has ended
-- @answer conflict     another number of jobs was received
-- @answer missing      there is no such batch

local state, jobs, rejected = unpack(call('HMGET', batch_key(id), 'state', 'jobs', 'rejected'))
if not state then return 'missing' end
if jobs + rejected ~= total then return 'conflict' end
if state ~= 'receiving' then return 'ok' end
call('HSET', batch_key(id), 'state', 'running', 'sealed', now)
call('ZREM', batchwork, id)
return 'ok ' .. settle(id, now)
