-- forget gives back what a job, batch or session without record and objects, or an upload, took of its tenant's quotas.
-- @include memory
-- @include lending
-- @arg id         of the job, batch or session, or the upload's entry
-- @arg again      when to look for its objects once more, ms, or ''
-- @arg now        ms
-- @arg lend_most  bytes that the tenant may have lent
-- @answer ok      always

local kept = call('HGET', t .. 'kept', id)
if kept then
  local bytes, created, charged = string.match(kept, '^(%d+) (%d+) (%d+)$')
  call('HDEL', t .. 'kept', id)
  count(t .. 'stored', -(tonumber(bytes) or 0))
  charge(-(tonumber(charged) or 0))
  call('ZREM', t .. 'jobs', (created or '') .. ':' .. id)
  call('ZREM', t .. 'batches', (created or '') .. ':' .. id)
  call('ZREM', t .. 'sessions', (created or '') .. ':' .. id)
  call('ZREM', t .. 'runs', (created or '') .. ':' .. id)
end
-- A worker may spoil what gives bytes back: the count ends with the last of the tenant's jobs.
if call('HLEN', t .. 'kept') == 0 and call('ZCARD', t .. 'jobs') == 0 and call('ZCARD', t .. 'batches') == 0
  and call('ZCARD', t .. 'sessions') == 0 and call('ZCARD', t .. 'runs') == 0 then call('DEL', recorded) end
forget_keys(now)
make_room(now, lend_most)
if again == '' then
  call('ZREM', t .. 'garbage', id)
else
  call('ZADD', t .. 'garbage', 'XX', again, id)
end
return 'ok'
