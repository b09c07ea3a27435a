-- give_back_session takes a session from its worker, whose sandbox for it could not be started, so that another worker can have it. It wants a task then.
-- @include session
-- @arg id      of the session
-- @arg worker  id of the worker
-- @arg due     when the sweeper looks for its task, ms
-- @answer ok     nobody holds it
-- @answer stale  it has begun, as its sandbox has asked for an execution; or it has ended, is no longer that worker's, or is gone

local state, held_by = unpack(call('HMGET', session_key(id), 'state', 'worker'))
if state ~= 'queued' or held_by ~= worker then return 'stale' end
call('HDEL', session_key(id), 'worker', 'forks')
call('HDEL', held, id)
call('ZADD', sessionwork, due, id)
return 'ok'
