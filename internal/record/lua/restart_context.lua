-- restart_context gives a context of a session another interpreter: one more generation, if it has had any. The session's worker ends its present one: at once if
-- it executes, else before anything more is executed.
-- @include session
-- @arg id         of the session
-- @arg name       of the context
-- @arg execution  that alone is to be ended, or ''
-- @answer ok       what is executed next has a new interpreter, or the execution does not run
-- @answer none     there is no such context
-- @answer missing  there is no such session
-- @answer ended    it has ended, or is about to

local state, over, held_by = unpack(call('HMGET', session_key(id), 'state', 'over', 'worker'))
if not state then return 'missing' end
if state == 'ended' or over then return 'ended' end
if execution ~= '' then
  local runs, session, context = unpack(call('HMGET', job(execution), 'state', 'session', 'context'))
  if runs ~= 'running' or session ~= id or (context or 'main') ~= name then return 'ok' end
end
local generation, begun = generation_of(id, name)
if not generation then return 'none' end
if begun then call('HSET', session_key(id), context_field(name, 'generation'), generation + 1) end
if held_by then call('PUBLISH', 'gb:turn:' .. held_by, id) end
return 'ok'
