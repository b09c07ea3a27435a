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
-- @answer stale    it is not held, not as it was, or no longer waited for

local state, held, run_at, priority, session, epoch, pool = unpack(call('HMGET', job(id), 'state', 'hold', 'run_at', 'priority', 'session', 'epoch', 'placement'))
local until_ms = tonumber(call('ZSCORE', approvals, id) or nil)
if not state then return {'missing'} end
if state ~= 'held' or held ~= hold or not until_ms or until_ms <= tonumber(now) then return {'stale'} end
local at = tonumber(run_at or nil)

-- After the first write comes what must not be missed; a worker may have spoiled what the rest of it needs.
call('ZREM', approvals, id)
call('HSET', job(id), 'state', 'queued', 'approval', approval)
call('HDEL', job(id), 'hold')
local released = {}
if session then
  local worker = redis.pcall('HGET', t .. 'session:' .. session, 'worker')
  if type(worker) == 'string' then call('PUBLISH', 'gb:turn:' .. worker, session) end
elseif at and at > tonumber(now) then
  call('ZADD', later, at, id)
else
  line_up_one(id, priority, pool)
  released = release(window, now, due, 1)
end
redis.pcall('HINCRBY', job(id), 'charge', size)
count(t .. 'recorded', size)
pcall(function()
  local events = t .. 'events:' .. id
  local last = stream_end(events)
  if not last then return end -- nobody watches
  append_event(events, 'status', epoch, 0, 0, last.total, '{"status":"queued","attempt":0}')
  call('PUBLISH', 'gb:events:' .. id, '')
end)
return {'ok', released}
