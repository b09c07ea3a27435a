-- approve lets a job run that is held: it is queued then as a new one is, or waits for its session.
-- @include queue
-- @include stream
-- @arg id         of the job
-- @arg now        ms
-- @arg due        when the sweeper looks for the tasks of jobs that are released here, ms
-- @arg window     how many jobs of the tenant may be released or running
-- @arg hold       the record's field hold as it was decided about
-- @arg approval   who decided, as JSON
-- @number size    bytes that the approval takes
-- @answer ok, released  it is queued; id, epoch and priority of each job that is released
-- @answer missing  there is no such job
-- @answer stale    it is not held, or not as it was

local state, held, run_at, priority, session, epoch = unpack(call('HMGET', job(id), 'state', 'hold', 'run_at', 'priority', 'session', 'epoch'))
if not state then return {'missing'} end
if state ~= 'held' or held ~= hold then return {'stale'} end
call('ZREM', approvals, id)
call('HSET', job(id), 'state', 'queued', 'approval', approval)
call('HDEL', job(id), 'hold')
call('HINCRBY', job(id), 'charge', size)
count(t .. 'recorded', size)
local events = t .. 'events:' .. id
local last = stream_end(events)
if last then -- somebody watches
  append_event(events, 'status', epoch, 0, 0, last.total, '{"status":"queued","attempt":0}')
  call('PUBLISH', 'gb:events:' .. id, '')
end
if session then
  local worker = call('HGET', t .. 'session:' .. session, 'worker')
  if worker then call('PUBLISH', 'gb:turn:' .. worker, session) end
  return {'ok', {}}
end
if run_at and tonumber(run_at) > tonumber(now) then
  call('ZADD', later, run_at, id)
  return {'ok', {}}
end
line_up({[(priority == 'high' or priority == 'low') and priority or 'normal'] = {1, id}}, 1)
return {'ok', release(window, now, due, 1)}
