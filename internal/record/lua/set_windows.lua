-- set_windows says how many jobs a tenant may have released or running that have a placement, of each, and without one, in all: the next
-- scripts go by it that release its jobs. Without fields there are none any more.
-- @arg life         how long it holds, ms
-- @arg made         a name for the fields, which read_pools answers
-- @rest first_field  common, at_once and placements, each with a number
-- @answer ok  they are there

local key = t .. 'windows'
call('DEL', key)
if ARGV[first_field] then
  call('HSET', key, 'made', made, unpack(ARGV, first_field))
  call('PEXPIRE', key, life)
end
return 'ok'
