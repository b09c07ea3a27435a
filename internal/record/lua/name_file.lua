-- name_file says which content of the tenant's a name stands for, and notes that it was asked for. Of more names than may be, the
-- ones go that nobody has asked for in the longest time.
-- @const most_names  that a tenant may have
-- @const name_life   how long a name is kept after it was asked for last, ms
-- @arg name          that a client gave to a file
-- @arg content       what the name stands for from now on; "": it is looked up
-- @number now        ms
-- @answer content    what the name stands for, "" if it is not known

local names, contents = t .. 'names', t .. 'names:of'
local past = call('ZRANGEBYSCORE', names, '-inf', now - name_life, 'LIMIT', 0, 100)
for _, old in ipairs(past) do
  call('ZREM', names, old)
  call('HDEL', contents, old)
end
if content == '' then
  content = call('HGET', contents, name) or ''
  if content == '' then return '' end
elseif not call('ZSCORE', names, name) and call('ZCARD', names) >= most_names then
  local oldest = call('ZPOPMIN', names)
  call('HDEL', contents, oldest[1])
end
call('HSET', contents, name, content)
call('ZADD', names, now, name)
call('PEXPIRE', names, name_life)
call('PEXPIRE', contents, name_life)
return content
