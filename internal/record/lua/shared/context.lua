-- A session's new contexts (docs/adr/0035-sessions.md).
-- @include session
-- @const max_contexts  how many a session has at most, with main
-- @const context_cost  bytes that one takes

-- no_room says why a session can't have another context, if it can't: it has too many, or bytes_recorded is full. more is what else is to be recorded.
local function no_room(id, now, more, most_recorded)
  if #context_names(call('HGET', session_key(id), 'contexts')) + 1 >= max_contexts then return 'contexts' end
  if in_redis(forget_keys(now)) + context_cost + more > most_recorded then return 'bytes_recorded' end
end

local function make_context(id, now, name, language, directory)
  local names = context_names(call('HGET', session_key(id), 'contexts'))
  names[#names + 1] = name
  call('HSET', session_key(id), 'contexts', table.concat(names, ' '), context_field(name, 'language'), language, context_field(name, 'directory'), directory,
    context_field(name, 'created'), now, context_field(name, 'first'), first_generation(id))
  call('HINCRBY', session_key(id), 'charge', context_cost)
  charge(context_cost)
end
