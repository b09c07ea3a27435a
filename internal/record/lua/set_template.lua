-- set_template stores a revision of a tenant's template, unless it is what the newest one is. The oldest revisions of the
-- template go, beyond so many. One that was deleted goes on counting, so that no revision is ever another program.
-- @const max_templates           how many templates a tenant may have
-- @const max_template_revisions  how many revisions of a template are kept
-- @const max_templates_bytes     bytes of all templates of a tenant, all revisions included
-- @arg name      of the template
-- @arg template  as JSON
-- @number now    ms
-- @answer revision  the number of the newest revision, and when it was stored, ms
-- @answer full      the tenant has as many as it may

local all, key, last = t .. 'templates', t .. 'template:' .. name, t .. 'revisions'
local newest = tonumber(string.match(call('HGET', all, name) or '0', '^%d+'))
local known = newest > 0
if not known then newest = tonumber(call('HGET', last, name) or call('HGET', last, '*') or 0) end
local at, before = string.match(call('HGET', key, newest) or '', '^(%d+) (.*)$')
if before == template then return {newest, at} end
if not known and call('HLEN', all) >= max_templates then return {'full'} end
local oldest = newest + 1 - max_template_revisions
local stored = now .. ' ' .. template
local bytes = #stored
for revision = oldest + 1, newest do bytes = bytes + call('HSTRLEN', key, revision) end
local others = 0
for other, line in string.gmatch(table.concat(call('HGETALL', all), '\n') .. '\n', '([^\n]*)\n([^\n]*)\n') do
  if other ~= name then
    -- Earlier versions could count one below 0.
    others = others + math.max(0, tonumber(string.match(line, '^%d+ (-?%d+)')))
  end
end
if others + bytes > max_templates_bytes then return {'full'} end
call('HDEL', last, name)
call('HDEL', key, oldest)
call('HSET', key, newest + 1, stored)
call('HSET', all, name, newest + 1 .. ' ' .. bytes .. ' ' .. now)
return {newest + 1, now}
