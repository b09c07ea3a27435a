-- Sessions: their records, who holds them, and their executions that wait (docs/adr/0035-sessions.md).
-- @include memory

local held, sessionwork = t .. 'held', t .. 'sessionwork'
local function job(id) return t .. 'job:' .. id end
local function session_key(id) return t .. 'session:' .. id end
local function turns_key(id) return t .. 'turns:' .. id end

-- idle_of is for how long a session may be idle, seconds, given what its field says. A record from before that could change has it in its settings alone.
local function idle_of(id, idle)
  return idle or cjson.decode(call('HGET', session_key(id), 'settings')).idle_seconds
end

-- line_is_full says whether as many wait for a session as may. Executions that are canceled don't, nor do forks that have ended: both leave the line here.
local function line_is_full(id, most_waiting)
  if call('LLEN', turns_key(id)) < most_waiting then return false end
  for _, waiting in ipairs(call('LRANGE', turns_key(id), 0, -1)) do
    local waits = call('HGET', job(waiting), 'state')
    if waits ~= 'queued' and waits ~= 'held' and call('HGET', session_key(waiting), 'state') ~= 'queued' then call('LREM', turns_key(id), 1, waiting) end
  end
  return call('LLEN', turns_key(id)) >= most_waiting
end

-- context_field is the field of a session's record that has that of one of its contexts. The session's generation is that of main.
local function context_field(name, field)
  if name == 'main' and field == 'generation' then return field end
  return 'context:' .. name .. ':' .. field
end

-- context_names are those of a session's contexts but main, given what its field says.
local function context_names(text)
  local names = {}
  for name in string.gmatch(text or '', '%S+') do names[#names + 1] = name end
  return names
end

-- generation_of is the generation of the interpreter that executes what comes next in a context; nil where there is no such context. begun says that
-- something was executed in it, and first is its first generation.
local function generation_of(id, name)
  local generation, first = unpack(call('HMGET', session_key(id), context_field(name, 'generation'), context_field(name, 'first')))
  if name ~= 'main' and not first then return nil end
  first = tonumber(first or 1)
  generation = tonumber(generation or 0)
  return math.max(generation, first), generation > 0, first
end

-- first_generation is that of a context that is not there yet: beyond those of all that were, so that none comes again.
local function first_generation(id) return (call('HGET', session_key(id), 'forgotten') or 0) + 1 end
