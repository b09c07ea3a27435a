-- turn creates an execution of a session: a job that waits for the session's other executions, and for nothing else.
-- @include session
-- @arg session          id of the session
-- @arg id               of the execution
-- @arg now              ms
-- @arg options          hash of what was asked for under an idempotency key, or '': no other has the id
-- @number most_waiting  how many executions may wait
-- @arg hold             until when it is held, ms, or ''
-- @number size          bytes that its record takes
-- @number most_recorded quota bytes_recorded
-- @rest first_field     more fields and values of the record
-- @answer ok              it is there
-- @answer exists          it was there: its key has named it before
-- @answer conflict        it was there, and something else was asked for
-- @answer missing         there is no such session
-- @answer ended           it has ended, or is about to
-- @answer busy            as many wait as may
-- @answer bytes_recorded  the quota is full

local state, held_by, over = unpack(call('HMGET', session_key(session), 'state', 'worker', 'over'))
if not state then return 'missing' end
if call('EXISTS', job(id)) == 1 then
  if options == '' then return 'ok' end
  return call('HGET', job(id), 'options') == options and 'exists' or 'conflict'
end
if state == 'ended' or over then return 'ended' end
if call('LLEN', turns_key(session)) >= most_waiting then
  for _, waiting in ipairs(call('LRANGE', turns_key(session), 0, -1)) do -- those that are canceled don't
    local waits = call('HGET', job(waiting), 'state')
    if waits ~= 'queued' and waits ~= 'held' then call('LREM', turns_key(session), 1, waiting) end
  end
  if call('LLEN', turns_key(session)) >= most_waiting then return 'busy' end
end
if in_redis(forget_keys(now)) + size > most_recorded then return 'bytes_recorded' end
call('HSET', job(id), 'state', hold == '' and 'queued' or 'held', 'epoch', 1, 'attempts', 0, 'created', now, 'bytes', 0, 'charge', size, 'priority', 'normal',
  'session', session, unpack(ARGV, first_field))
if options ~= '' then call('HSET', job(id), 'options', options) end
charge(size)
if hold ~= '' then call('ZADD', t .. 'approvals', hold, id) end
call('ZADD', t .. 'jobs', 0, now .. ':' .. id)
call('RPUSH', turns_key(session), id)
if held_by then call('PUBLISH', 'gb:turn:' .. held_by, session) end
return 'ok'
