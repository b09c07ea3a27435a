-- session_time tells a session's worker until when it lives. What it says is over stays over: no change of the session comes after, and no execution.
-- @include session
-- @arg id            of the session
-- @arg worker        id of the worker
-- @number now        ms
-- @number idle_for   how long it has executed nothing, ms
-- @answer lives, expires, idle  until when, ms, and how long it may be idle, seconds
-- @answer over, reason          ttl or idle
-- @answer missing    there is no such session
-- @answer ended      it has ended, or is another worker's

local state, held_by, over, expires, idle = unpack(call('HMGET', session_key(id), 'state', 'worker', 'over', 'expires', 'idle'))
if not state then return {'missing'} end
if state == 'ended' or held_by ~= worker then return {'ended'} end
idle = idle_of(id, idle)
if not over and now >= tonumber(expires) then over = 'ttl' end
if not over and idle_for >= idle * 1000 and call('LLEN', turns_key(id)) == 0 then over = 'idle' end
if over then
  call('HSET', session_key(id), 'over', over)
  return {'over', over}
end
return {'lives', expires, tostring(idle)}
