-- open_batch begins a batch, or finds the one that its idempotency key began.
-- @include batch
-- @const key_life  how long an idempotency key is kept, ms
-- @arg id                 of the new batch
-- @arg now                ms
-- @arg due                when it is given up if nothing of it comes, ms
-- @arg key                hash of the idempotency key, or ''
-- @arg options            hash of what was asked for
-- @number size            bytes that its record takes
-- @number most_recorded   quota bytes_recorded
-- @rest first_field       more fields and values of the record
-- @answer ID              of the batch, which is id for a new one
-- @answer gone ID         the key's batch is no longer kept
-- @answer conflict        the key's batch has other options
-- @answer bytes_recorded  the quota is full

local idem = t .. 'batchidem:' .. key
if key ~= '' then
  local held = call('GET', idem)
  local held_options = held and call('HGET', batch_key(held), 'options')
  if held_options then
    if held_options ~= options then return 'conflict' end
    renew(held, due)
    return held
  end
  if held then return 'gone ' .. held end
end
if in_redis(forget_keys(now)) + size + (key ~= '' and key_cost or 0) > most_recorded then return 'bytes_recorded' end
if key ~= '' then remember(idem, id, now, key_life) end
call('HSET', batch_key(id), 'state', 'receiving', 'created', now, 'jobs', 0, 'rejected', 0, 'ended', 0, 'options', options, unpack(ARGV, first_field))
charge_batch(id, size)
call('ZADD', batchwork, due, id)
call('ZADD', t .. 'batches', 0, now .. ':' .. id)
return id
