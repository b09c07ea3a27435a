-- Sessions: their records, who holds them, and their executions that wait (docs/adr/0035-sessions.md).
-- @include memory

local held, sessionwork = t .. 'held', t .. 'sessionwork'
local function job(id) return t .. 'job:' .. id end
local function session_key(id) return t .. 'session:' .. id end
local function turns_key(id) return t .. 'turns:' .. id end
