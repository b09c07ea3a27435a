-- claim_upload marks an upload whose time is over as being deleted, unless a problem of the tenant has it.
-- @arg upload  its entry: upload:<sha256>
-- @arg again   when it is due again, if nothing becomes of it, ms
-- @arg later   when to look again at one that a problem has, ms
-- @answer ok    the caller deletes it
-- @answer held  somebody has asked for it meanwhile, or a problem has it

local due = call('ZSCORE', t .. 'garbage', upload)
if not due or tonumber(due) > tonumber(again) then return 'held' end
local sets = call('HKEYS', t .. 'problems')
if #sets > 0 then -- one command looks into all of them: a script's own take longer than what they look up
  for i, digest in ipairs(sets) do sets[i] = t .. 'problem:' .. digest end
  local wanted = t .. 'problem:wanted'
  call('SADD', wanted, upload)
  local free = call('SDIFF', wanted, unpack(sets))
  call('DEL', wanted)
  if #free == 0 then
    call('ZADD', t .. 'garbage', 'GT', later, upload)
    return 'held'
  end
end
local bytes, charged = string.match(call('HGET', t .. 'kept', upload) or '', '^(%d+) %d (%d+)$')
call('HSET', t .. 'kept', upload, (bytes or '0') .. ' 1 ' .. (charged or '0'))
return 'ok'
