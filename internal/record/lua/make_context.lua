-- make_context makes a context of a session. Where it is there already, it has to be the same.
-- @include context
-- @arg id               of the session
-- @number now           ms
-- @arg name             of the context, which is not main
-- @arg language         of its interpreter
-- @arg directory        where that begins to work, or ''
-- @number most_recorded quota bytes_recorded
-- @answer ok                   it is there
-- @answer language LANGUAGE    it is there, with another language
-- @answer directory DIRECTORY  it is there, with another directory
-- @answer contexts             there are as many as there may be
-- @answer missing              there is no such session
-- @answer ended                it has ended, or is about to
-- @answer bytes_recorded       the quota is full

local state, over, language_was, directory_was = unpack(call('HMGET', session_key(id), 'state', 'over', context_field(name, 'language'), context_field(name, 'directory')))
if not state then return 'missing' end
if state == 'ended' or over then return 'ended' end
if language_was then
  if language_was ~= language then return 'language ' .. language_was end
  if directory_was ~= directory then return 'directory ' .. directory_was end
  return 'ok'
end
local why = no_room(id, now, 0, most_recorded)
if why then return why end
make_context(id, now, name, language, directory)
return 'ok'
