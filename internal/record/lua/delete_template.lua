-- delete_template forgets a tenant's template with all its revisions, but not how many there were: a revision of that name that is
-- stored later goes on counting. Of names beyond so many the highest number alone is kept, from which then any other name counts.
-- @const max_last_revisions  of how many deleted templates the number is kept
-- @arg name  of the template
-- @answer 1  it is gone
-- @answer 0  there is none

local all, last = t .. 'templates', t .. 'revisions'
local newest = tonumber(string.match(call('HGET', all, name) or '', '^%d+'))
if not newest then return 0 end
if call('HLEN', last) >= max_last_revisions then
  local highest = newest
  for _, n in ipairs(call('HVALS', last)) do highest = math.max(highest, tonumber(n)) end
  call('DEL', last)
  call('HSET', last, '*', string.format('%.0f', highest))
else
  call('HSET', last, name, string.format('%.0f', newest))
end
call('DEL', t .. 'template:' .. name)
return call('HDEL', all, name)
