-- turn creates an execution of a session: a job that waits for the session's other executions, and for nothing else.
-- @include context
-- @include delivery
-- @arg session          id of the session
-- @arg id               of the execution
-- @arg now              ms
-- @arg options          hash of what was asked for under an idempotency key, or '': no other has the id
-- @number most_waiting  how many executions may wait
-- @arg hold             until when it is held, ms, or ''
-- @arg held_event       id of the event that tells of that
-- @arg context          whose interpreter is to execute it; it is made where it is not there
-- @arg language         of that context
-- @arg expect           generation that its interpreter has to have, or ''
-- @number size          bytes that its record takes
-- @number most_recorded quota bytes_recorded
-- @rest first_field     more fields and values of the record
-- @answer ok DELIVERY     it is there; what tell answered where it is held
-- @answer exists          it was there: its key has named it before
-- @answer conflict        it was there, and something else was asked for
-- @answer missing         there is no such session
-- @answer ended           it has ended, or is about to
-- @answer busy            as many wait as may
-- @answer generation N    the context's interpreter is another than expected, that one
-- @answer language L      the context has another language, that one
-- @answer contexts        there are as many contexts as there may be
-- @answer bytes_recorded  the quota is full

local state, held_by, over = unpack(call('HMGET', session_key(session), 'state', 'worker', 'over'))
if not state then return 'missing' end
if call('EXISTS', job(id)) == 1 then
  if options == '' then return 'ok' end
  return call('HGET', job(id), 'options') == options and 'exists' or 'conflict'
end
if state == 'ended' or over then return 'ended' end
local generation, _, first = generation_of(session, context)
if expect ~= '' and tonumber(expect) ~= (generation or first_generation(session)) then return 'generation ' .. (generation or first_generation(session)) end
local spoken = generation and context ~= 'main' and call('HGET', session_key(session), context_field(context, 'language'))
if spoken and spoken ~= language then return 'language ' .. spoken end
if line_is_full(session, most_waiting) then return 'busy' end
local why = not generation and no_room(session, now, size, most_recorded)
if why then return why end
if in_redis(forget_keys(now)) + size > most_recorded then return 'bytes_recorded' end
if not generation then
  first = first_generation(session)
  make_context(session, now, context, language, '')
end
call('HSET', job(id), 'state', hold == '' and 'queued' or 'held', 'epoch', 1, 'attempts', 0, 'created', now, 'bytes', 0, 'charge', size, 'priority', 'normal',
  'session', session, unpack(ARGV, first_field))
if context ~= 'main' then call('HSET', job(id), 'context_first', first) end
if options ~= '' then call('HSET', job(id), 'options', options) end
charge(size)
local told = ''
if hold ~= '' then
  call('ZADD', t .. 'approvals', hold, id)
  told = tell('job.held', nil, nil, held_event, now, 'news', 'held ' .. id, 'expires', hold)
end
call('ZADD', t .. 'jobs', 0, now .. ':' .. id)
call('RPUSH', turns_key(session), id)
if held_by then call('PUBLISH', 'gb:turn:' .. held_by, session) end
return 'ok ' .. told
