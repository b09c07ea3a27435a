-- hold_upload counts an upload as stored, and keeps it until then at least. Its entry in kept is its bytes, 1 once it is being
-- deleted, and what it takes of Redis.
-- @include memory
-- @const upload_cost  what an upload takes of Redis, bytes
-- @arg upload             its entry: upload:<sha256>
-- @number bytes           of the upload
-- @arg measured           1: the bucket said the bytes; else the most that was ever said counts
-- @arg known              1: it has to have been held before
-- @arg keep_until         until when it is kept, ms
-- @number most_stored     quota bytes_stored, 0: any
-- @number most_recorded   quota bytes_recorded
-- @answer ok              it is held
-- @answer missing         it was not held before
-- @answer goes            it is being deleted
-- @answer bytes_stored    the quota is full
-- @answer bytes_recorded  the quota is full

local held, deleted = string.match(call('HGET', t .. 'kept', upload) or '', '^(%d+) (%d)')
if not held and known == '1' then return 'missing' end
if deleted == '1' then return 'goes' end
local before = tonumber(held or 0)
if measured ~= '1' then bytes = math.max(bytes, before) end
if most_stored > 0 and bytes > before and sum(t .. 'stored') + bytes - before > most_stored then return 'bytes_stored' end
if not held then
  if in_redis() + upload_cost > most_recorded then return 'bytes_recorded' end
  charge(upload_cost)
end
call('HSET', t .. 'kept', upload, string.format('%.0f 0 %.0f', bytes, upload_cost))
count(t .. 'stored', bytes - before)
call('ZADD', t .. 'garbage', 'GT', keep_until, upload)
return 'ok'
