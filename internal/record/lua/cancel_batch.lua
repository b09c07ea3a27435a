-- cancel_batch begins to cancel a batch: nothing more of it is received. The caller cancels its jobs.
-- @include batch
-- @arg id       of the batch
-- @arg now      ms
-- @arg again    when the sweeper goes on with it, ms
-- @arg overdue  ms: only if it is to be given up by then; '' for in any case
-- @answer ok DELIVERY  it is canceled once its jobs have ended; what tell answered, if they have
-- @answer completed    it has ended before
-- @answer canceled     it has ended before
-- @answer renewed      it is not to be given up
-- @answer missing      there is no such batch

local state = call('HGET', batch_key(id), 'state')
if not state then return 'missing' end
if overdue ~= '' and tonumber(call('ZSCORE', batchwork, id) or 0) > tonumber(overdue) then return 'renewed' end
if state == 'completed' or state == 'canceled' then return state end
if state == 'receiving' then call('HSET', batch_key(id), 'state', 'running', 'sealed', now) end
call('HSET', batch_key(id), 'cancel', 1)
call('ZADD', batchwork, again, id)
return 'ok ' .. settle(id, now)
