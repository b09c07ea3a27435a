-- forget_context forgets a context of a session. Its worker ends the interpreter: at once if it executes, else before it executes anything more. What waits to be executed in the
-- context never is.
-- @include session
-- @const context_cost  bytes that one takes
-- @arg id    of the session
-- @arg name  of the context, which is not main
-- @answer ok       it is forgotten
-- @answer none     there is no such context
-- @answer missing  there is no such session
-- @answer ended    it has ended, or is about to

local state, over, held_by, names = unpack(call('HMGET', session_key(id), 'state', 'over', 'worker', 'contexts'))
if not state then return 'missing' end
if state == 'ended' or over then return 'ended' end
local generation = generation_of(id, name)
if not generation then return 'none' end
local left = {}
for _, other in ipairs(context_names(names)) do
  if other ~= name then left[#left + 1] = other end
end
if generation >= first_generation(id) then call('HSET', session_key(id), 'forgotten', generation) end
for _, field in ipairs({'language', 'directory', 'created', 'first', 'generation', 'executions'}) do call('HDEL', session_key(id), context_field(name, field)) end
call('HSET', session_key(id), 'contexts', table.concat(left, ' '))
call('HINCRBY', session_key(id), 'charge', -context_cost)
charge(-context_cost)
if held_by then call('PUBLISH', 'gb:turn:' .. held_by, id) end
return 'ok'
