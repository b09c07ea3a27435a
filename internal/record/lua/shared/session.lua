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
