-- open_run begins a run of a pipeline, or finds the one that its idempotency key began.
-- @include memory
-- @include run
-- @const key_life  how long an idempotency key is kept, ms
-- @arg id                 of the new run
-- @arg now                ms
-- @arg key                hash of the idempotency key, or ''
-- @arg options            hash of what was asked for
-- @number size            bytes that its record takes
-- @number most_recorded   quota bytes_recorded
-- @arg over_budget        1: the tenant's budget is spent
-- @rest first_field       more fields and values of the record
-- @answer ID              of the run, which is id for a new one
-- @answer gone ID         the key's run is no longer kept
-- @answer conflict        the key's run has another pipeline or parameters
-- @answer over_budget     a new run is refused
-- @answer bytes_recorded  the quota is full

if call('EXISTS', run_key(id)) == 1 then return id end
local idem = t .. 'runidem:' .. key
if key ~= '' then
  local held = call('GET', idem)
  local held_options = held and call('HGET', run_key(held), 'options')
  if held_options then return held_options == options and held or 'conflict' end
  if held then return 'gone ' .. held end
end
if over_budget == '1' then return 'over_budget' end
if in_redis(forget_keys(now)) + size + (key ~= '' and key_cost or 0) > most_recorded then return 'bytes_recorded' end
look_at(id) -- first, as a worker may have spoiled it: a record that nobody looks at would be there for ever
call('ZADD', t .. 'runs', 0, now .. ':' .. id)
if key ~= '' then remember(idem, id, now, key_life) end
call('HSET', run_key(id), 'state', 'running', 'created', now, 'options', options, 'charge', size, unpack(ARGV, first_field))
call('HSET', run_items(id), 'rev', 1)
charge(size)
return id
