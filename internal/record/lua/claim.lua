-- claim lists entries of a sorted set that are due, a page at most, and puts them off in the same step: another process finds
-- others. An entry without a record goes.
-- @const page  how many entries one call claims at most
-- @arg set     what the set's key ends with: open, outbox, garbage
-- @arg by      claim what was due then, ms
-- @arg again   when they are due again, if nothing becomes of them, ms
-- @arg record  what the keys of their records begin with: job:, delivery:
-- @rest first_field  fields to read of each record, first one that every record has; without any no record is read
-- @answer entries  of each its id and the fields

local set_key, due = t .. set, {}
for _, id in ipairs(call('ZRANGE', set_key, '-inf', by, 'BYSCORE', 'LIMIT', 0, page)) do
  local entry = {id}
  if ARGV[first_field] then
    local fields = redis.pcall('HMGET', t .. record .. id, unpack(ARGV, first_field))
    if fields.err then fields = {} end -- no hash: it has no fields, and its reader will say so
    for i = 1, #fields do entry[i + 1] = fields[i] end
  end
  if entry[2] == false then
    call('ZREM', set_key, id)
  else
    call('ZADD', set_key, 'XX', again, id)
    due[#due + 1] = entry
  end
end
return due
